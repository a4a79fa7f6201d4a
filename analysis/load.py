"""Read a finished run folder: json, yaml and npz files, never a pickle."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from analysis.errors import AnalysisError
from analysis.lookup import MISSING, look_up, natural_key, read_json


@dataclass(frozen=True)
class RunFolder:
    """One run as its files say it was.

    Attributes:
        path: the folder.
        manifest: ``manifest.json``: job, status, seed, versions, times.
    """

    path: Path
    manifest: dict[str, Any]

    @classmethod
    def open(cls, path: str | Path, finished: bool = True) -> "RunFolder":
        """Open a run folder.

        Args:
            path: the folder that holds ``manifest.json``.
            finished: refuse a run that failed, was interrupted or is still going.

        Returns:
            The run, its metrics and arrays read when asked for.

        Raises:
            AnalysisError: no folder, no run in it, or a run that did not finish.
        """
        path = Path(path)
        if not path.is_dir():
            raise AnalysisError(f"{path}: no such folder")
        if not (path / "manifest.json").is_file():
            raise AnalysisError(f"{path}: not a run folder, it holds no manifest.json")
        manifest = read_json(path / "manifest.json")
        missing = [key for key in ("job", "status") if key not in manifest]
        if missing:
            raise AnalysisError(f"{path / 'manifest.json'}: lacks {' and '.join(missing)}")
        run = cls(path, manifest)
        if finished and run.status != "finished":
            raise AnalysisError(f"{path}: the run is {run.status}, not finished{run.why}")
        return run

    @property
    def job(self) -> str:
        """Name of the experiment."""
        return str(self.manifest["job"])

    @property
    def status(self) -> str:
        """``running``, ``finished``, ``failed`` or ``interrupted``."""
        return str(self.manifest["status"])

    @property
    def why(self) -> str:
        """The error of a failed run after a colon, or nothing."""
        error = self.manifest.get("error")
        return f": {' '.join(str(error).split())}" if error else ""

    @property
    def smoke(self) -> bool:
        """Whether the run only checked the machinery and is no result."""
        return bool(self.manifest.get("smoke", False))

    @cached_property
    def config(self) -> dict[str, Any]:
        """The resolved ``config.yaml``.

        Raises:
            AnalysisError: there is none, or it is no mapping.
        """
        file = self.path / "config.yaml"
        if not file.is_file():
            raise AnalysisError(f"{self.path}: the run holds no config.yaml")
        try:
            content = yaml.safe_load(file.read_text(encoding="utf-8"))
        except yaml.YAMLError as error:
            raise AnalysisError(f"{file}: not valid YAML ({' '.join(str(error).split())})") from error
        if not isinstance(content, dict):
            raise AnalysisError(f"{file}: expected a mapping of settings")
        return content

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """The contents of ``metrics.json``; null stands for a value that is undefined.

        Raises:
            AnalysisError: there is none, or it is no JSON object.
        """
        file = self.path / "metrics.json"
        if not file.is_file():
            raise AnalysisError(f"{self.path}: the run holds no metrics.json")
        return read_json(file)

    def metric(self, key: str) -> Any:
        """One metric by its dotted key.

        Args:
            key: for example ``top1.joint``, or ``top1_interval.joint.0`` into a list.

        Returns:
            The value.

        Raises:
            AnalysisError: the run holds no such key.
        """
        value = look_up(self.metrics, key)
        if value is MISSING:
            raise AnalysisError(f"{self.path / 'metrics.json'}: holds no {key!r}")
        return value

    def setting(self, key: str, default: Any = None) -> Any:
        """One value of the config by its dotted key.

        Args:
            key: for example ``estimator.num_features``.
            default: what stands for a setting that the config does not hold.

        Returns:
            The value, or `default`.
        """
        value = look_up(self.config, key)
        return default if value is MISSING else value

    def has_arrays(self, name: str) -> bool:
        """Whether the run holds an array file.

        Args:
            name: file name without its suffix.

        Returns:
            Whether ``arrays/<name>.npz`` exists.
        """
        return (self.path / "arrays" / f"{name}.npz").is_file()

    def arrays(self, name: str) -> dict[str, np.ndarray]:
        """All arrays of ``arrays/<name>.npz``.

        Args:
            name: file name without its suffix.

        Returns:
            Arrays by their names.

        Raises:
            AnalysisError: the file is missing, unreadable or holds pickled objects.
        """
        file = self.path / "arrays" / f"{name}.npz"
        if not file.is_file():
            raise AnalysisError(f"{self.path}: the run holds no arrays/{name}.npz")
        try:
            with np.load(file, allow_pickle=False) as stored:
                return {key: stored[key] for key in stored.files}
        except (ValueError, OSError, EOFError) as error:
            raise AnalysisError(f"{file}: cannot be read ({' '.join(str(error).split())})") from error


def find_runs(root: str | Path) -> list[RunFolder]:
    """Every run under a folder, finished or not, in the order of their paths.

    Args:
        root: a store, a multirun folder or a run folder.

    Returns:
        The runs.

    Raises:
        AnalysisError: `root` is no folder, or a manifest in it cannot be read.
    """
    root = Path(root)
    if not root.is_dir():
        raise AnalysisError(f"{root}: no such folder")
    files = sorted(
        root.rglob("manifest.json"), key=lambda file: natural_key(str(file.parent.relative_to(root)))
    )
    return [RunFolder.open(file.parent, finished=False) for file in files]
