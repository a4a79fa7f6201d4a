"""Files that are whole or not there: written beside, flushed to the disk, then renamed."""

import errno
import json
import math
import os
import re
import shutil
import uuid
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_LONGEST_STEM = 180  # bytes: what file systems take, less what makes stems differ and suffixes
_FIXES = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space",
    errno.EFBIG: "raise the limit on the size of files",
    errno.EACCES: "choose a folder that you can write to",
    errno.EPERM: "choose a folder that you can write to",
    errno.EROFS: "choose a folder that you can write to",
    errno.ENOTDIR: "choose a folder, not a file",
    errno.EEXIST: "choose a folder, not a file",
}


def unwritable(error: BaseException) -> str | None:
    """Returns one line for an error of the disk (full, read-only, a file in the way), None for any other.

    >>> unwritable(OSError(errno.ENOSPC, "No space left on device", "runs/metrics.json"))
    'runs/metrics.json: No space left on device; free some space'
    """
    if not isinstance(error, OSError) or error.errno not in _FIXES:
        return None
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror}; {_FIXES[error.errno]}"


@contextmanager
def written_atomically(path: Path) -> Generator[Path, None, None]:
    """Gives a temporary path beside ``path`` and renames what was written there once the block is through.

    Args:
        path: The file to make or replace, or the folder to make.

    Yields:
        A path with the suffix of ``path``, for a file or a folder.

    Raises:
        OSError: When the disk takes no more, with the path.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.stem}.{uuid.uuid4().hex[:12]}{path.suffix}")
    try:
        yield temporary
        _flush(temporary)
        os.replace(temporary, path)
        _flush_entry(path.parent)
    except OSError as error:
        # A full disk does not say which file it had no room for.
        error.filename = error.filename or str(path)
        raise
    finally:
        remove(temporary)


def write_text(path: Path, text: str) -> None:
    """Writes a text file atomically."""
    with written_atomically(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, content: Any) -> None:
    """Writes a JSON file atomically: sorted keys, NaN and infinities as null, arrays as lists."""
    write_text(path, json.dumps(plain(content), indent=2, sort_keys=True, ensure_ascii=False) + "\n")


def file_stems(names: Iterable[str]) -> list[str]:
    """Returns a name of a file, without suffix, for each of several names; no two are alike on any system.

    >>> file_stems(["c/c++", "../up", "A", "a"])
    ['c-c++', '-up', 'A', 'a-']
    """
    stems: list[str] = []
    taken = {""}
    for name in names:
        stem = (
            re
            .sub(r'[/\\:*?"<>|\x00-\x1f]', "-", name)
            .lstrip(".")
            .encode()[:_LONGEST_STEM]
            .decode(errors="ignore")
        )
        while stem.casefold() in taken:
            stem += "-"
        taken.add(stem.casefold())
        stems.append(stem)
    return stems


def canonical(content: Any) -> str:
    """Returns the one JSON text of a value, whatever the order of its keys."""
    return json.dumps(plain(content), sort_keys=True, separators=(",", ":"), allow_nan=False)


def plain(value: Any) -> Any:
    """Returns a value in JSON's own types.

    Args:
        value: Numbers, text, mappings and sequences, numpy's or torch's numbers and arrays, paths.

    Returns:
        The same in dict, list, str, int, float, bool and None; a float that is not finite becomes None.

    Raises:
        TypeError: For any other type.
    """
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    raise TypeError(f"{type(value).__qualname__} does not go into JSON: {value!r}")


def remove(path: Path) -> None:
    """Removes a file or a folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _flush(path: Path) -> None:
    for inner in sorted(path.rglob("*")) if path.is_dir() else []:
        _flush_entry(inner)
    _flush_entry(path)


def _flush_entry(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
