"""What several results of one job, model and data say together: their settings, and error against size."""

from collections.abc import Callable
from typing import Any

import pandas as pd

from analysis import jobs
from analysis.figures import error_curve
from analysis.load import RunFolder
from analysis.lookup import MISSING, look_up
from analysis.presentation import Figure, Table
from analysis.sweep import metric_cell, varied


def settings_table(runs: list[RunFolder], name: Callable[[RunFolder], str]) -> Table:
    """The runs side by side.

    Args:
        runs: finished runs of one job, model and data.
        name: what to call a run.

    Returns:
        One row a run: the settings that differ and the job's main metrics.
    """
    changed = varied(runs)
    keys = jobs.find(runs[0].job).METRICS if runs[0].job in jobs.names() else ()
    rows = [
        {"run": name(run)} | changed[run.path] | {key: metric_cell(run, key) for key in keys} for run in runs
    ]
    return Table("settings", "Runs that differ in their settings", pd.DataFrame(rows))


def figures(runs: list[RunFolder], caption: str) -> list[Figure]:
    """Error of the sketch against m and bytes, where runs of several sizes measured it.

    Args:
        runs: finished runs of one job, model and data.
        caption: what they were made from.

    Returns:
        One figure, or none.
    """
    points = error_points(runs)
    if points["m"].nunique() < 2:
        return []
    ends = points.sort_values("m")
    low, high = ends.iloc[0], ends.iloc[-1]
    words = (
        f"Error of the sketched joint alignment against the exact one: {low['rmse']:.4f} at m = {low['m']:,}"
        f", {high['rmse']:.4f} at m = {high['m']:,}."
    )
    title = "Error of the sketch against its features and its bytes"
    return [Figure("error_against_size", title, words, lambda: error_curve.draw(points, caption))]


def error_points(runs: list[RunFolder]) -> pd.DataFrame:
    """The error that each run measured.

    Args:
        runs: finished runs.

    Returns:
        Columns m, bytes, rmse and kind (projection and number format), for the runs that hold them all.
    """
    rows: list[dict[str, Any]] = []
    for run in runs:
        features = run.setting("estimator.num_features")
        rmse, size = (look_up(run.metrics, f"sketch.{key}") for key in ("rmse_joint", "signature_bytes"))
        if features is None or rmse in (MISSING, None) or size in (MISSING, None):
            continue
        kind = f"{run.setting('estimator.projection', '')} {run.setting('estimator.signature', '')}".strip()
        rows.append({"m": features, "bytes": size, "rmse": rmse, "kind": kind or "sketch"})
    return pd.DataFrame(rows, columns=["m", "bytes", "rmse", "kind"])
