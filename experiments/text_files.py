"""Texts of a file, read as far as they are asked for: JSON lines, CSV, Parquet, or plain text; gzip too."""

import csv
import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, AnyStr

from experiments.errors import UserError

# A longer plain text is several documents, cut at line ends where there are some, so that it streams.
BLOCK_CHARACTERS = 1 << 20
SUFFIXES = (".txt", ".jsonl", ".ndjson", ".csv", ".tsv", ".parquet")
_LIKELY = ("text", "content")
_LONGEST_LINE = 1 << 28  # bytes or characters of a line of JSON or a cell of a table, all in memory at once


class FieldError(UserError):
    """The field that holds the text is missing or not clear."""


def texts(path: Path, field: str | None) -> Iterator[str]:
    """Yields the texts of a file in order; a row of a table or a line of JSON is one.

    Args:
        path: A .jsonl, .ndjson, .csv, .tsv or .parquet file, or any other file of UTF-8 text; each but
            Parquet may be compressed, with .gz behind its name.
        field: Field or column that holds the text; None for the only one that holds text, or the only one of
            the name text or content.

    Raises:
        FieldError: The field is missing, holds no text, or cannot be told; says which there are.
        UserError: The file cannot be read; names it, and the line.
    """
    read = _READERS.get(_kind(path), _plain)
    try:
        yield from read(path, field)
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text ({error.reason}); convert it") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(f"{path} is not a whole gzip file ({error}); make it again") from None
    except PermissionError:
        raise UserError(f"{path} may not be read; change its permissions") from None
    except FileNotFoundError:
        raise UserError(f"{path}: there is no such file") from None


def is_text_file(path: Path) -> bool:
    """Returns whether a file's name has one of the suffixes of texts, gzip's behind it or not."""
    return _kind(path) in SUFFIXES


def _kind(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    return suffixes[-1] if suffixes else ""


def _open(path: Path) -> IO[bytes]:
    return gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb")  # type: ignore[return-value]


def _plain(path: Path, field: str | None) -> Iterator[str]:
    with _open(path) as file, io.TextIOWrapper(file, "utf-8-sig") as text:
        block: list[str] = []
        length = 0
        while line := text.readline(BLOCK_CHARACTERS):
            if "\0" in line:
                raise UserError(f"{path} holds binary data, not text; convert it or leave it out")
            block.append(line)
            length += len(line)
            if length >= BLOCK_CHARACTERS:
                yield "".join(block)
                block, length = [], 0
        if block:
            yield "".join(block)


def _lines(file: IO[AnyStr], path: Path) -> Iterator[AnyStr]:
    """Yields the lines of a file as iterating over it does.

    Raises:
        UserError: Memory may not hold one.
    """
    while line := file.readline(_LONGEST_LINE):
        if len(line) == _LONGEST_LINE:
            raise UserError(f"{path}: has a line longer than {_LONGEST_LINE >> 20} MiB; divide it")
        yield line


def _json_lines(path: Path, field: str | None) -> Iterator[str]:
    with _open(path) as file:
        for number, line in enumerate(_lines(file, path), start=1):
            if not line.strip():
                continue
            where = f"{path}, line {number}"
            try:
                record = json.loads(line.strip().decode("utf-8-sig"))
            except UnicodeDecodeError as error:
                raise UserError(f"{where}: not UTF-8 text ({error.reason}); convert it") from None
            except json.JSONDecodeError as error:
                raise UserError(f"{where}: not JSON ({error.msg} at column {error.colno})") from None
            except RecursionError:
                raise UserError(f"{where}: not JSON that can be read (nested too deep)") from None
            except ValueError as error:
                raise UserError(
                    f"{where}: not JSON that can be read ({str(error).partition(';')[0]})"
                ) from None
            if not isinstance(record, dict):
                raise UserError(f"{where}: must be an object with the field {field or 'text'!r}")
            if field is None:
                field = _only_text(record, where)
            if field not in record:
                raise FieldError(f"{where}: no such field; it has {', '.join(record) or 'none'}")
            if not isinstance(record[field], str):
                raise FieldError(f"{where}: must hold text, not {record[field]!r:.40}")
            _refuse_halves(record[field], where)
            yield record[field]


def _refuse_halves(text: str, where: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        half = f"\\u{ord(text[error.start]):04x}"
        raise UserError(
            f"{where}: holds {half}, half of a surrogate pair and no character; write it whole"
        ) from None


def _table(path: Path, field: str | None) -> Iterator[str]:
    delimiter = "\t" if _kind(path) == ".tsv" else ","
    limit = csv.field_size_limit(_LONGEST_LINE)
    try:
        with _open(path) as file, io.TextIOWrapper(file, "utf-8-sig", newline="") as lines:
            rows = csv.DictReader(_lines(lines, path), delimiter=delimiter, strict=True)
            columns = list(rows.fieldnames or [])
            if len(set(columns)) < len(columns):
                raise UserError(f"{path}: names a column twice; it has {', '.join(columns)}")
            for row in rows:
                if None in row:
                    raise UserError(
                        f"{path}, line {rows.line_num}: has more cells than there are columns; put text "
                        "with a delimiter in quotes"
                    )
                if field is None:
                    held = {name: row[name] for name in columns if not _is_number(row[name])}
                    field = _only_text(held, f"{path}, line {rows.line_num}")
                if field not in columns:
                    raise FieldError(f"{path}: no such column; it has {', '.join(columns) or 'none'}")
                if "\0" in (row[field] or ""):
                    raise UserError(f"{path}, line {rows.line_num}: holds binary data, not text; convert it")
                if row[field]:
                    yield row[field]
    except csv.Error as error:
        raise UserError(f"{path}: not a table ({error})") from None
    finally:
        csv.field_size_limit(limit)


def _parquet(path: Path, field: str | None) -> Iterator[str]:
    import pyarrow
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            schema = file.schema_arrow
            kinds = (pyarrow.types.is_string, pyarrow.types.is_large_string)
            held = {column.name: "" for column in schema if any(kind(column.type) for kind in kinds)}
            if field is None:
                field = _only_text(held, str(path))
            if field not in schema.names:
                raise FieldError(f"{path}: no such column; it has {', '.join(schema.names) or 'none'}")
            if field not in held:
                raise FieldError(f"{path}: must hold text, not {schema.field(field).type}")
            for batch in file.iter_batches(batch_size=256, columns=[field]):
                yield from (text for text in batch.column(0).to_pylist() if text)
    except pyarrow.ArrowException as error:
        raise UserError(f"{path}: not a whole Parquet file ({str(error).splitlines()[0]})") from None


def _only_text(record: Mapping[str, Any], where: str) -> str:
    fields = [name for name, value in record.items() if isinstance(value, str)]
    chosen = fields if len(fields) == 1 else [name for name in fields if name.lower() in _LIKELY]
    if len(chosen) != 1:
        has = f"fields {', '.join(fields)} hold text" if fields else "no field holds text"
        raise FieldError(f"{where}: {has}; name the one to read")
    return chosen[0]


def _is_number(cell: str | None) -> bool:
    if not cell:
        return cell is None
    with suppress(ValueError):
        float(cell)
        return True
    return False


_READERS: dict[str, Callable[[Path, str | None], Iterator[str]]] = {
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".csv": _table,
    ".tsv": _table,
    ".parquet": _parquet,
}
