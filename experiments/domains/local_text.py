"""A user's own text: a .txt or .jsonl file, compressed or not, or a folder of them."""

import gzip
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from omegaconf import MISSING

from experiments.domains.base import Source
from experiments.errors import UserError
from experiments.options import option, register

_FOLDER_FILES = ("*.txt", "*.jsonl", "*.txt.gz", "*.jsonl.gz")


@register("domain", "local_text")
@dataclass
class LocalText(Source):
    """Local files. A line of a .jsonl file is a document, any other file is one as a whole."""

    licence: str = option("not stated", "Licence of the text.")
    path: str = option(
        MISSING, "The file, or a folder whose .txt and .jsonl files (or .gz of them) are read."
    )
    field: str = option("text", "Field of a JSON line that holds the text.")

    def describe(self) -> str:
        """Returns the path as it was given."""
        return self.path

    def documents(self, key: str) -> Iterator[str]:
        """Yields the texts, files in the order of their paths.

        Raises:
            UserError: A file is missing, cannot be read, or holds a broken line.
        """
        for path in self._files(key):
            is_lines = ".jsonl" in path.suffixes[-2:]
            try:
                with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as content:
                    if not is_lines:
                        yield content.read().decode("utf-8-sig")
                        continue
                    for number, line in enumerate(content, start=1):
                        if line.strip():
                            yield self._text(line.strip(), f"{path}, line {number}", key)
            except UnicodeDecodeError as error:
                raise UserError(
                    f"{key}.path: {path} is not UTF-8 text ({error.reason}); convert it"
                ) from None
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                raise UserError(
                    f"{key}.path: {path} is not a whole gzip file ({error}); make it again"
                ) from None
            except PermissionError:
                raise UserError(f"{key}.path: {path} may not be read; change its permissions") from None

    def _files(self, key: str) -> list[Path]:
        path = Path(self.path).expanduser()
        if path.is_file():
            return [path]
        if not path.is_dir():
            raise UserError(
                f"{key}.path={self.path}: there is no such file or folder (looked in {Path.cwd()})"
            )
        files = sorted(file for pattern in _FOLDER_FILES for file in path.rglob(pattern) if file.is_file())
        if not files:
            raise UserError(f"{key}.path={self.path}: the folder holds no {', '.join(_FOLDER_FILES)}")
        return files

    def _text(self, line: bytes, where: str, key: str) -> str:
        try:
            record = json.loads(line.decode("utf-8-sig"))
        except UnicodeDecodeError as error:
            raise UserError(f"{key}.path: {where}: not UTF-8 text ({error.reason}); convert it") from None
        except json.JSONDecodeError as error:
            raise UserError(f"{key}.path: {where}: not JSON ({error.msg} at column {error.colno})") from None
        if not isinstance(record, dict):
            raise UserError(f"{key}.path: {where}: must be an object with the field {self.field!r}")
        if self.field not in record:
            have = ", ".join(record) or "none"
            raise UserError(f"{key}.field={self.field}: {where}: no such field; it has {have}")
        if not isinstance(record[self.field], str):
            raise UserError(
                f"{key}.field={self.field}: {where}: must hold text, not {record[self.field]!r:.40}"
            )
        return record[self.field]
