"""The score table of a run: one row an estimator, one row for chance."""

from typing import Any

import pandas as pd

from analysis.load import RunFolder

MAIN = ("top1", "top3", "mean_regret", "max_regret", "mean_spearman")
COLUMNS = (
    *MAIN,
    "top1_over_random",
    "mean_regret_relative",
    "matrix_spearman",
    "matrix_p_mantel",
    "matrix_p_spearman",
    "p_top1_against_joint",
    "p_regret_against_joint",
    "p_spearman_against_joint",
    "undefined_scores",
)
CEILINGS = {
    "other fine-tuning seed": "ceiling_top1_seeds",
    "other half of held-out text": "ceiling_top1_halves",
    "transposed gain": "ceiling_top1_transpose",
}
# Parts of the metrics that hold the scores of other candidates, and what these are.
SECTIONS = {
    "within_groups": "the other sources of the target's group as candidates",
    "without_siblings": "sources that share text with the target left out",
    "candidates_24": "24 random candidates a target, the mean over many draws",
}
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


def scores(run: RunFolder, section: str | None = None) -> pd.DataFrame:
    """Top-1, regret and rank correlation of each estimator, with intervals where the run holds them.

    Args:
        run: a run with transfer.
        section: one of `SECTIONS` that the run holds; all candidates by default.

    Returns:
        One row an estimator, one for chance and one for each ceiling, the Top-1 that the gains themselves
        reach when they rank; what the run does not hold is ``not computed``.
    """
    metrics = run.metrics if section is None else run.metrics[section]
    bounds = {"random": "random_top1"} | CEILINGS
    bounds = {name: key for name, key in bounds.items() if isinstance(metrics.get(key), float)}
    names = [*estimators(run), *bounds]
    frame = pd.DataFrame({"estimator": names})
    for column in COLUMNS:
        values = metrics.get(column)
        if not isinstance(values, dict):
            continue
        cells = [values.get(name) for name in names]
        if column == "top1":
            cells[len(names) - len(bounds) :] = [metrics[key] for key in bounds.values()]
        frame[column] = _column(cells)
        spread = metrics.get(f"{column}_interval")
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


def chosen_score(run: RunFolder) -> pd.DataFrame:
    """The training-free score chosen on one half of the targets, against the joint alignment on the other.

    Args:
        run: a run with transfer.

    Returns:
        One row a criterion of the choice; no rows where the run chose nothing.
    """
    held = run.metrics.get("selected_score") or {}
    columns = ["chosen", "chosen_share", "top1", "top1_reference", "p_top1_against_joint"]
    columns += ["mean_regret", "mean_regret_reference", "p_regret_against_joint"]
    columns += ["mean_spearman", "mean_spearman_reference", "p_spearman_against_joint"]
    rows = [
        {"chosen by": criterion.replace("_", " ")}
        | {key: held[f"by_{criterion}"].get(key) for key in columns}
        for criterion in ("top1", "mean_regret", "mean_spearman")
        if f"by_{criterion}" in held
    ]
    return pd.DataFrame(rows, columns=["chosen by", *columns])


def _number(value: Any) -> float:
    return -1.0 if value is None else float(value)


def _column(cells: list[Any]) -> pd.Series:
    if all(cell is not None for cell in cells):
        return pd.Series(cells, dtype=float)
    return pd.Series(["not computed" if cell is None else float(cell) for cell in cells], dtype=object)
