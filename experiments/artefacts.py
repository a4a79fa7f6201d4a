"""A cache of artefacts under a hash of what made them, shared between runs and between processes.

A finished artefact stands beside its key file: the key is written first and the artefact is renamed into
place last, so that one cut short is never taken for a finished one. A lock of the operating system, which a
dying process lets go of, keeps two processes from making the same artefact.
"""

import hashlib
import json
import logging
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from experiments.errors import UserError
from experiments.files import canonical, plain, remove, unwritable, write_json, written_atomically

log = logging.getLogger(__name__)


class ArtefactCache:
    """Artefacts by kind and key.

    Args:
        root: Folder of the cache; it is made when something is written.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def get(self, kind: str, key: Mapping[str, Any], make: Callable[[Path], None], suffix: str) -> Path:
        """Returns a finished artefact, made now or before.

        Args:
            kind: What it is, one word: the folder it lies in.
            key: All that it depends on, in types that JSON has; a change of any value is another artefact.
            make: Writes the artefact, a file or a folder, to the path it is given.
            suffix: Suffix of the artefact, with its dot; "" for a folder.

        Returns:
            Path of the artefact.

        Raises:
            UserError: When it has to be made and the cache cannot be written.
            OSError: What ``make`` met outside the cache.
        """
        path, key_path = self._paths(kind, key, suffix)
        name = path.name.removesuffix(suffix)
        if _finished(path, key_path, key):
            return path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with _locked(path.with_name(f"{name}.lock"), f"{kind} {name}"):
                if not _finished(path, key_path, key):
                    for left_behind in [*path.parent.glob(f".{name}*"), path]:
                        remove(left_behind)
                    with written_atomically(path) as temporary:
                        make(temporary)
                        write_json(key_path, key)
        except OSError as error:
            reason = unwritable(error)
            elsewhere = error.filename is not None and not Path(error.filename).is_relative_to(self.root)
            if reason is None or elsewhere:
                raise
            raise UserError(
                f"{kind} {name} is not in the cache yet and cannot be written to it: {reason}, "
                "or set FISHERSKETCH_CACHE to another folder"
            ) from error
        return path

    def find(self, kind: str, key: Mapping[str, Any], suffix: str) -> Path | None:
        """Returns a finished artefact, None where there is none yet; the arguments are those of `get`."""
        path, key_path = self._paths(kind, key, suffix)
        return path if _finished(path, key_path, key) else None

    def _paths(self, kind: str, key: Mapping[str, Any], suffix: str) -> tuple[Path, Path]:
        name = hashlib.sha256(canonical({"kind": kind, "key": key}).encode()).hexdigest()[:32]
        return self.root / kind / f"{name}{suffix}", self.root / kind / f"{name}.key.json"


def _finished(path: Path, key_path: Path, key: Mapping[str, Any]) -> bool:
    return path.exists() and key_path.exists() and json.loads(key_path.read_text("utf-8")) == plain(key)


@contextmanager
def _locked(path: Path, what: str) -> Generator[None, None, None]:
    lock = FileLock(path)
    try:
        lock.acquire(timeout=2.0)
    except Timeout:
        log.info("waiting for another process that makes %s", what)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
