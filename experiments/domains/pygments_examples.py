"""Program and markup text: the example files that Pygments tests its lexers with."""

from collections.abc import Iterator
from dataclasses import dataclass

from experiments.assets import fetch
from experiments.domains.base import Source
from experiments.domains.package_text import readable
from experiments.errors import UserError
from experiments.options import option, register
from experiments.packages import PACKAGES


@register("domain", "pygments_examples")
@dataclass
class PygmentsExamples(Source):
    """The example files of one language; a file is a document."""

    lexers: list[str] = option([], "Folders of example files, named as Pygments names the lexer.")

    def describe(self) -> str:
        """Returns the package and the folders."""
        return f"{PACKAGES['pygments'].label}, examples of {', '.join(self.lexers)}"

    def documents(self, key: str) -> Iterator[str]:
        """Yields the files' texts.

        Raises:
            UserError: The package cannot be fetched or has no such folder.
        """
        root = fetch(PACKAGES["pygments"]) / "tests" / "examplefiles"
        for lexer in self.lexers:
            files = sorted(path for path in (root / lexer).glob("*") if path.is_file())
            if not files:
                raise UserError(f"{key}.lexers: {PACKAGES['pygments'].label} has no examples of {lexer!r}")
            for path in files:
                # The expected tokens of an example lie beside it.
                if path.suffix != ".output":
                    yield readable(path.read_bytes())
