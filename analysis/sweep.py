"""One table of the runs of a sweep: what was varied, and what came out."""

from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from analysis import jobs, tables
from analysis.errors import AnalysisError
from analysis.load import RunFolder, find_runs
from analysis.lookup import MISSING, look_up, natural_key
from analysis.presentation import Table

BOOKKEEPING = ("store", "hydra", "logger")  # settings that say where a run is kept, not what it is


def sweep(folder: str | Path) -> str:
    """Write ``sweep.csv`` and ``sweep.md`` into a multirun folder.

    Args:
        folder: a folder of runs of one job.

    Returns:
        The Markdown text.

    Raises:
        AnalysisError: the folder holds no run, or runs of several jobs.
    """
    folder = Path(folder)
    frame = sweep_table(folder)
    tables.write(Table("sweep", f"Runs of the sweep {folder.resolve().name}", frame), folder)
    return (folder / "sweep.md").read_text(encoding="utf-8")


def sweep_table(folder: Path) -> pd.DataFrame:
    """The runs of a sweep, one a row.

    Args:
        folder: a folder of runs of one job.

    Returns:
        Columns: run, status, the settings that differ, the job's main metrics, seconds, and the error of a
        run that did not finish. A metric that a run does not hold says so.

    Raises:
        AnalysisError: the folder holds no run, or runs of several jobs.
    """
    runs = find_runs(folder)
    dead = _without_manifest(folder, runs)
    if not runs:
        raise AnalysisError(f"{folder}: holds no run folder (no manifest.json)")
    names = sorted({run.job for run in runs})
    if len(names) > 1:
        raise AnalysisError(
            f"{folder}: holds runs of several jobs ({', '.join(names)}), show one job's sweep"
        )
    metrics = jobs.find(names[0]).METRICS
    changed = varied(runs)
    rows: list[dict[str, Any]] = []
    for run in runs:
        row: dict[str, Any] = {"run": _name(run.path, folder), "status": run.status}
        if run.smoke:
            row["status"] += " (smoke)"
        row |= changed[run.path]
        if run.status == "finished":
            row |= {key: metric_cell(run, key) for key in metrics}
        else:
            row |= dict.fromkeys(metrics, run.status)
        row["seconds"] = run.manifest.get("wall_seconds") or "not recorded"
        row["error"] = run.why.removeprefix(": ") or ("none" if run.status == "finished" else "none recorded")
        rows.append(row)
    for path in dead:
        row = {"run": _name(path, folder), "status": "died"} | _overrides(path)
        rows.append(row | {"error": "the run left no manifest.json: it died before its job began"})
    rows.sort(key=lambda row: natural_key(row["run"]))
    columns = ["run", "status", *changed[runs[0].path], *metrics, "seconds", "error"]
    return pd.DataFrame([{key: row.get(key, "not run") for key in columns} for row in rows])


def varied(runs: list[RunFolder]) -> dict[Path, dict[str, Any]]:
    """The settings in which runs differ.

    Args:
        runs: at least one run.

    Returns:
        For each run's path its value of every such setting: the overridden keys of ``.hydra/overrides.yaml``
        where every run has that file, else the differences between the configs. One run alone, or runs that
        were given the same overrides, show all their overrides.
    """
    if all((run.path / ".hydra" / "overrides.yaml").is_file() for run in runs):
        values = {run.path: _overrides(run.path) for run in runs}
        alone_shown = True
    else:
        values = {run.path: _flat(run.config) for run in runs}
        alone_shown = False
    keys = list(dict.fromkeys(key for row in values.values() for key in row))
    differing = [key for key in keys if len({str(row.get(key)) for row in values.values()}) > 1]
    if not differing and alone_shown:
        differing = keys
    kept = {
        run.path: {key: values[run.path].get(key, look_up(run.config, key)) for key in differing}
        for run in runs
    }
    return {
        path: {key: "not set" if value is MISSING or value is None else value for key, value in row.items()}
        for path, row in kept.items()
    }


def _overrides(path: Path) -> dict[str, Any]:
    file = path / ".hydra" / "overrides.yaml"
    lines = yaml.safe_load(file.read_text(encoding="utf-8")) or []
    pairs = (str(line).lstrip("+~").partition("=") for line in lines)
    return {key: _value(value) for key, _, value in pairs if key.partition(".")[0] not in BOOKKEEPING}


def _value(text: str) -> Any:
    value = yaml.safe_load(text) if text else text
    return value if isinstance(value, (int, float, str)) else text


def _flat(config: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in config.items():
        if not prefix and key in BOOKKEEPING:
            continue
        if isinstance(value, dict):
            found |= _flat(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found


def metric_cell(run: RunFolder, key: str) -> Any:
    """One metric as a table shows it.

    Args:
        run: a finished run.
        key: dotted key.

    Returns:
        The value, or words where the run does not hold it or holds null.
    """
    value = look_up(run.metrics, key)
    if value is MISSING:
        return "not in run"
    return tables.UNDEFINED if value is None else value


def _without_manifest(folder: Path, runs: list[RunFolder]) -> list[Path]:
    known = {run.path for run in runs}
    return [
        file.parent.parent
        for file in folder.rglob(".hydra/overrides.yaml")
        if file.parent.parent not in known
    ]


def _name(path: Path, folder: Path) -> str:
    return str(path.relative_to(folder)) if path != folder else path.resolve().name
