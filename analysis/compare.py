"""The main metrics of several runs side by side."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import jobs
from analysis.caption import data_of, model_of, samples_of
from analysis.errors import AnalysisError
from analysis.load import RunFolder
from analysis.sweep import metric_cell, varied
from analysis.tables import markdown


def compare(folders: Sequence[str | Path]) -> str:
    """A column a run: what it was made from, what differs in its settings, and its job's main metrics.

    Args:
        folders: finished runs of one job.

    Returns:
        A Markdown table.

    Raises:
        AnalysisError: fewer than two runs, one that did not finish, or runs of several jobs.
    """
    if len(folders) < 2:
        raise AnalysisError("compare: give at least two run folders")
    runs = [RunFolder.open(folder) for folder in folders]
    if len({run.path.resolve() for run in runs}) < len(runs):
        raise AnalysisError("compare: the same run folder was given twice")
    names = sorted({run.job for run in runs})
    if len(names) > 1:
        raise AnalysisError(f"compare: runs of several jobs ({', '.join(names)}) share no scores")
    columns = {str(run.path): _column(run) for run in runs}
    settings = varied(runs)
    for run in runs:
        columns[str(run.path)] = {**settings[run.path], **columns[str(run.path)]}
    frame = pd.DataFrame(columns, dtype=object)
    frame.insert(0, "", frame.index)
    return markdown(frame)


def _column(run: RunFolder) -> dict[str, Any]:
    column: dict[str, Any] = {"model": model_of(run), "data": data_of(run), "n": samples_of(run)}
    if run.smoke:
        column["n"] += " (smoke run, not a result)"
    for key in jobs.find(run.job).METRICS:
        column[key] = metric_cell(run, key)
    return column
