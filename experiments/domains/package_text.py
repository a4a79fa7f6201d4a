"""Text files of a pinned package: music notation, sequences, anything that is text."""

from collections.abc import Iterator
from dataclasses import dataclass

from omegaconf import MISSING

from experiments.assets import fetch
from experiments.domains.base import Source
from experiments.errors import UserError
from experiments.options import option, register
from experiments.packages import PACKAGES


@register("domain", "package_text")
@dataclass
class PackageText(Source):
    """The files that match some patterns; a file is a document."""

    package: str = option(MISSING, "Pinned package that holds the files.", choices=PACKAGES)
    files: list[str] = option([], "Patterns of the files' paths inside the package.")

    def describe(self) -> str:
        """Returns the package and the patterns."""
        return f"{PACKAGES[self.package].label}, {', '.join(self.files)}"

    def documents(self, key: str) -> Iterator[str]:
        """Yields the files' texts.

        Raises:
            UserError: The package cannot be fetched, or no file matches a pattern.
        """
        root = fetch(PACKAGES[self.package])
        for pattern in self.files:
            paths = sorted(path for path in root.glob(pattern) if path.is_file())
            if not paths:
                raise UserError(
                    f"{key}.files: nothing that is used of {PACKAGES[self.package].label} matches {pattern!r}"
                )
            for path in paths:
                yield readable(path.read_bytes())


def readable(content: bytes) -> str:
    """Returns a file's text, read as Latin-1 if it is not UTF-8: old files have no other way to say so."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("latin-1")
