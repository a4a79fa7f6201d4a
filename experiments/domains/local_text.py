"""A user's own text: a file of a format that `experiments.text_files` reads, or a folder of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from omegaconf import MISSING

from experiments.domains.base import Source
from experiments.errors import UserError
from experiments.options import option, register
from experiments.paths import user_path
from experiments.text_files import SUFFIXES, FieldError, is_text_file, texts


@register("domain", "local_text")
@dataclass
class LocalText(Source):
    """Local files. A line of JSON or a row of a table is a document, any other file is one as a whole."""

    licence: str = option("not stated", "Licence of the text.")
    path: str = option(
        MISSING,
        "The file, or a folder whose .txt, .jsonl, .csv and .parquet files (or .gz of them) are read.",
    )
    field: str | None = option(
        None, "Field or column that holds the text; null for the only one, or the one named text or content."
    )

    def describe(self) -> str:
        """Returns the path as it was given."""
        return self.path

    def documents(self, key: str) -> Iterator[str]:
        """Yields the texts, files in the order of their paths.

        Raises:
            UserError: A file is missing, cannot be read, or holds a broken line.
        """
        for path in self._files(key):
            try:
                yield from texts(path, self.field)
            except FieldError as error:
                chosen = "" if self.field is None else f"={self.field}"
                raise UserError(f"{key}.field{chosen}: {error}") from None
            except UserError as error:
                raise UserError(f"{key}.path: {error}") from None

    def _files(self, key: str) -> list[Path]:
        path = user_path(self.path, f"{key}.path")
        if path.is_file():
            return [path]
        if not path.is_dir():
            raise UserError(
                f"{key}.path={self.path}: there is no such file or folder (looked in {Path.cwd()})"
            )
        files = sorted(file for file in path.rglob("*") if is_text_file(file) and file.is_file())
        if not files:
            kinds = ", ".join(f"*{suffix}" for suffix in SUFFIXES)
            raise UserError(f"{key}.path={self.path}: the folder holds no {kinds}")
        return files
