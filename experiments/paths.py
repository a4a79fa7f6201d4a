"""Where files that outlive a run are kept, and how a folder of them comes to be."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import platformdirs
from filelock import FileLock

from experiments.errors import UserError


def cache_root() -> Path:
    """Returns the cache folder: ``FISHERSKETCH_CACHE``, or ``fishersketch`` in the user's cache folder."""
    chosen = os.environ.get("FISHERSKETCH_CACHE")
    return Path(chosen or platformdirs.user_cache_dir("fishersketch")).expanduser().resolve()


def user_path(text: str, key: str) -> Path:
    """Returns a path as a user wrote it, ``~`` expanded; it need not exist.

    Args:
        text: The path.
        key: Dotted key of the setting that gives it, for errors.

    Raises:
        UserError: No file system has such a path.
    """
    if not text.strip():
        raise UserError(f"{key}={text}: must be the name of a file or folder")
    try:
        path = Path(text).expanduser()
        path.exists()
    except (OSError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error).rstrip(".")
        raise UserError(f"{key}={text:.60}: no path of this machine ({reason})") from None
    return path


def make_once(folder: Path, make: Callable[[Path], None]) -> Path:
    """Returns a folder that exists, making it whole or not at all.

    Processes that ask at the same time make it once: the others wait. What a killed process left unfinished
    is thrown away.

    Args:
        folder: Where it shall be.
        make: Makes the folder at the path it is given, which does not exist yet.

    Returns:
        The folder.
    """
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_name(f"{folder.name}.lock")):
        if not folder.is_dir():
            unfinished = folder.with_name(f"{folder.name}.unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            try:
                make(unfinished)
            except BaseException:
                shutil.rmtree(unfinished, ignore_errors=True)
                raise
            os.replace(unfinished, folder)
    return folder
