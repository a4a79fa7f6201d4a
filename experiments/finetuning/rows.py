"""Rows of a transfer matrix as files: what one fine-tuned source makes of the held-out windows of targets."""

import hashlib
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from filelock import FileLock, Timeout

from experiments.errors import UserError
from experiments.files import canonical, remove, written_atomically

Losses = dict[str, np.ndarray]


class RowFolder:
    """One file a row: the losses (W,) float32 of every target scored so far, by its held-out digest.

    Args:
        path: The folder; it is made when something is written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def file(self, key: Mapping[str, Any]) -> Path:
        """Returns where the row of a key is kept."""
        return self.path / f"{hashlib.sha256(canonical(key).encode()).hexdigest()[:32]}.npz"

    def read(self, key: Mapping[str, Any]) -> Losses:
        """Reads a row.

        Args:
            key: What made it, in types that JSON has.

        Returns:
            The losses by held-out digest, without any when there is no such row.

        Raises:
            UserError: For a file that cannot be read or holds another row.
        """
        path = self.file(key)
        if not path.exists():
            return {}
        try:
            with np.load(BytesIO(path.read_bytes()), allow_pickle=False) as row:
                kept, digests, counts, losses = (row[n] for n in ("key", "held_out", "windows", "losses"))
            found = dict(zip(map(str, digests), np.split(losses, np.cumsum(counts)[:-1]), strict=True))
        except (ValueError, KeyError, BadZipFile, EOFError) as error:
            raise UserError(f"{path}: cannot be read as a row of losses ({error}); delete it") from error
        if str(kept) != canonical(key):
            raise UserError(f"{path}: holds the row of {kept}, which belongs to another file name; delete it")
        return found

    def write(self, key: Mapping[str, Any], losses: Losses) -> None:
        """Writes a row, all at once or not at all.

        Args:
            key: What made it.
            losses: All its losses, by held-out digest.
        """
        digests = sorted(losses)
        with written_atomically(self.file(key)) as temporary:
            np.savez_compressed(
                temporary,
                key=np.array(canonical(key)),
                held_out=np.array(digests),
                windows=np.array([len(losses[digest]) for digest in digests]),
                losses=np.concatenate([losses[digest] for digest in digests]).astype(np.float32),
            )


class Rows:
    """The rows of the cache and of the folder kept with a record, if there is one; the record's come first.

    Args:
        cache: Folder that all runs share.
        record: Folder kept with a record of results; it gets every row that is used.
    """

    def __init__(self, cache: Path, record: Path | None = None) -> None:
        self._cache = RowFolder(cache)
        self._record = None if record is None else RowFolder(record)

    def read(self, key: Mapping[str, Any]) -> Losses:
        """Returns what both folders hold of a row."""
        cached = self._cache.read(key)
        return cached if self._record is None else cached | self._record.read(key)

    def complete(self, key: Mapping[str, Any], held_out: Iterable[str]) -> Losses | None:
        """Returns a row's losses if every target's are there, and sees to it that the record has them.

        Args:
            key: The row.
            held_out: Digests of the targets.

        Returns:
            The losses, None when a target is missing.
        """
        held = self.read(key)
        if not held.keys() >= set(held_out):
            return None
        if self._record is not None and not self._record.read(key).keys() >= set(held_out):
            with self.claimed(key, wait=True):
                _add(self._record, key, held)
        return held

    def keep(self, key: Mapping[str, Any], losses: Losses) -> None:
        """Adds losses to both folders; the caller has claimed the row."""
        for folder in (self._cache, self._record):
            if folder is not None:
                _add(folder, key, losses)

    @contextmanager
    def claimed(self, key: Mapping[str, Any], wait: bool) -> Generator[bool, None, None]:
        """Keeps other processes from working on a row.

        Args:
            key: The row.
            wait: Whether to wait for a process that has it.

        Yields:
            Whether the row is ours; always, after a wait.
        """
        path = self._cache.file(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path.with_suffix(".lock"))
        try:
            lock.acquire(timeout=-1 if wait else 0)
        except Timeout:
            yield False
            return
        try:
            for left_by_a_killed_process in path.parent.glob(f".{path.stem}.*"):
                remove(left_by_a_killed_process)
            yield True
        finally:
            lock.release()


def _add(folder: RowFolder, key: Mapping[str, Any], losses: Losses) -> None:
    """Adds what a folder lacks of a row; what it holds stays."""
    held = folder.read(key)
    if losses.keys() - held.keys():
        folder.write(key, losses | held)
