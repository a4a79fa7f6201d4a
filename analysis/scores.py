"""The score table of a run: one row an estimator, one row for chance."""

from typing import Any

import pandas as pd

from analysis.load import RunFolder

COLUMNS = ("top1", "top3", "mean_regret", "max_regret", "mean_regret_relative", "mean_spearman")
UNITS = "regret in nats per token; intervals over targets"


def estimators(run: RunFolder) -> list[str]:
    """Estimators of a run: the joint alignment and its factors first, then the others by Top-1.

    Args:
        run: the run.

    Returns:
        Names, without ``random``; empty where transfer was not run.
    """
    top1 = run.metrics.get("top1") or {}
    first = [name for name in ("joint", "activation", "error", "coupling") if name in top1]
    rest = [name for name in top1 if name not in (*first, "random")]
    return first + sorted(rest, key=lambda name: (-_number(top1[name]), name))


def scores(run: RunFolder) -> pd.DataFrame:
    """Top-1, regret and rank correlation of each estimator, with intervals where the run holds them.

    Args:
        run: a run with transfer.

    Returns:
        One row an estimator and a last one, ``random``; what the run does not hold is ``not computed``.
    """
    names = [*estimators(run), "random"]
    frame = pd.DataFrame({"estimator": names})
    for column in COLUMNS:
        values = run.metrics.get(column)
        if not isinstance(values, dict):
            continue
        chance = run.metrics.get("random_top1") if column == "top1" else None
        cells = [values.get(name, chance if name == "random" else None) for name in names]
        frame[column] = _column(cells)
        spread = run.metrics.get(f"{column}_interval")
        if isinstance(spread, dict):
            low = [(spread.get(name) or [None, None])[0] for name in names]
            high = [(spread.get(name) or [None, None])[1] for name in names]
            frame[f"{column}_low"], frame[f"{column}_high"] = _column(low), _column(high)
    return frame


def sketch_against_exact(run: RunFolder) -> pd.DataFrame:
    """Each measure of the sketch against the exact alignment on the same tokens.

    Args:
        run: the run.

    Returns:
        Two columns, measure and value; no rows where the run compared nothing.
    """
    values = run.metrics.get("sketch") or {}
    rows = [
        {"measure": key, "value": values[key]} for key in sorted(values) if not isinstance(values[key], dict)
    ]
    return pd.DataFrame(rows, columns=["measure", "value"])


def _number(value: Any) -> float:
    return -1.0 if value is None else float(value)


def _column(cells: list[Any]) -> pd.Series:
    if all(cell is not None for cell in cells):
        return pd.Series(cells, dtype=float)
    return pd.Series(["not computed" if cell is None else float(cell) for cell in cells], dtype=object)
