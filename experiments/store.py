"""The folder of one run: config, manifest, metrics, arrays and log, and what became of the run."""

import logging
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import yaml

from experiments.artefacts import ArtefactCache
from experiments.errors import UserError
from experiments.failures import Reported, expected, summary
from experiments.files import canonical, plain, write_json, write_text, written_atomically
from experiments.paths import cache_root
from experiments.provenance import commit, peak_bytes, versions
from experiments.run_log import close_run_log, open_run_log

_WHERE_IT_GOES = ("store", "logger")


class Store:
    """A run's folder, open while the run goes on.

    Used as a context manager: entering claims the folder and writes the manifest with status ``running``;
    leaving writes what became of it, ``finished``, ``failed`` with the error, or ``interrupted``.

    Args:
        folder: The run's folder; it may exist, but hold no run.
        config: The resolved config.
        command: The command line that makes the run.

    Attributes:
        folder: The run's folder.
        cache: The artefacts that runs share.
        log: Logger of the run; its lines go to ``run.log`` and to stderr.
        seconds: Seconds per stage, filled by `timed`.
    """

    def __init__(self, folder: Path, config: Mapping[str, Any], command: str) -> None:
        self.folder = folder
        self.cache = ArtefactCache(cache_root() / "artefacts")
        self.log = logging.getLogger("experiments")
        self.seconds: dict[str, float] = {}
        self._config = plain(config)
        self._command = command
        self._manifest: dict[str, Any] = {}
        self._handlers: list[logging.Handler] = []
        self._start = 0.0

    def __enter__(self) -> "Store":
        self._start = time.perf_counter()
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            self._handlers = open_run_log(self.folder / "run.log")
        except FileExistsError:
            raise UserError(f"{self.folder}: holds a run already; choose another folder") from None
        try:
            self._describe()
        except BaseException:
            close_run_log(self._handlers)
            raise
        return self

    def _describe(self) -> None:
        write_text(
            self.folder / "config.yaml", yaml.safe_dump(self._config, sort_keys=False, allow_unicode=True)
        )
        head, dirty = commit(Path(__file__).resolve().parent.parent)
        self.record(
            job=self._config.get("job"),
            command=self._command,
            config_hash=config_hash(self._config),
            git_commit=head,
            git_dirty=dirty,
            versions=versions(),
            device=self._config.get("device"),
            seed=self._config.get("seed"),
            smoke=self._config.get("smoke"),
            status="running",
            error=None,
            started=_now(),
            finished=None,
            wall_seconds=None,
            peak_bytes=None,
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self.finish()
            elif isinstance(error, KeyboardInterrupt):
                self._end("interrupted", summary(error))
            else:
                line = expected(error)
                if line is None:
                    line = f"{summary(error)} (traceback in {self.folder / 'run.log'})"
                    self.log.error(line, exc_info=error)
                else:
                    self.log.error(line)
                self._end("failed", line)
                raise Reported(line) from error
        finally:
            close_run_log(self._handlers)

    def finish(self) -> None:
        """Marks the job finished; what fails after it, a figure or a logger, does not change that."""
        if self._manifest["status"] == "running":
            self._end("finished", None)

    def _end(self, status: str, error: str | None) -> None:
        if self._manifest["status"] == "finished":
            self.record(error=error)
            return
        seconds = time.perf_counter() - self._start
        self.record(
            status=status, error=error, finished=_now(), wall_seconds=seconds, peak_bytes=peak_bytes()
        )

    def record(self, **fields: Any) -> None:
        """Adds fields to the manifest."""
        self._manifest |= fields
        write_json(self.folder / "manifest.json", self._manifest)

    def write_metrics(self, metrics: Mapping[str, Any]) -> None:
        """Writes ``metrics.json``: sorted keys, NaN and infinities as null.

        Args:
            metrics: Numbers, text, lists and mappings of them; numpy's types are fine.

        Raises:
            RuntimeError: When the run has written its metrics already.
        """
        path = self.folder / "metrics.json"
        if path.exists():
            raise RuntimeError(f"{path} is there already: a run writes its metrics once")
        write_json(path, metrics)

    def write_arrays(self, name: str, **arrays: Any) -> None:
        """Writes ``arrays/<name>.npz``.

        Args:
            name: Name of the file, without its suffix.
            **arrays: Arrays, or lists of numbers or text.

        Raises:
            TypeError: For an array of Python objects, which only a pickle could hold.
        """
        columns: dict[str, Any] = {key: np.asarray(array) for key, array in arrays.items()}
        for key, column in columns.items():
            if column.dtype.hasobject:
                raise TypeError(f"arrays/{name}.npz: {key} holds Python objects")
        with written_atomically(self.folder / "arrays" / f"{name}.npz") as temporary:
            np.savez_compressed(temporary, **columns)

    @contextmanager
    def timed(self, stage: str) -> Generator[None, None, None]:
        """Adds the seconds that a block takes to ``seconds[stage]``.

        Yields:
            Nothing.
        """
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - start


def config_hash(config: Mapping[str, Any]) -> str:
    """Returns a hash of all of a config that can change a result: not where it is kept or logged."""
    kept = {key: value for key, value in config.items() if key not in _WHERE_IT_GOES}
    return sha256(canonical(kept).encode()).hexdigest()[:16]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
