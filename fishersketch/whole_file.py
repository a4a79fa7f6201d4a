"""Files that are written whole or not at all."""

import os
import secrets
from contextlib import suppress
from pathlib import Path

from fishersketch.errors import FisherSketchError


def write_whole(path: Path, data: bytes, what: str) -> None:
    """Writes a file beside its place and moves it there.

    Args:
        path: the file; an older one is replaced.
        data: its content.
        what: what it is, for the error.

    Raises:
        FisherSketchError: the file cannot be written; names it.
    """
    temporary = path.parent / f".{path.name}.{secrets.token_hex(4)}"
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError):
            raise FisherSketchError(f"{path}: cannot write the {what} ({error.strerror})") from error
        raise
