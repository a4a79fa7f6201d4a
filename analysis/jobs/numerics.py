"""Numerics: the error of alignments by the number format of weights and features."""

import pandas as pd

from analysis.caption import caption
from analysis.errors import AnalysisError
from analysis.load import RunFolder
from analysis.presentation import Presentation, Table
from analysis.tables import markdown

COLUMNS = ("estimator", "weights", "features", "measure", "max_abs_error", "rms_error", "spearman")
METRICS = tuple(
    f"error.{estimator}.{weights}.{features}.joint.{name}"
    for estimator in ("exact", "sketch")
    for weights, features in (("float32", "float32"), ("bfloat16", "float32"), ("bfloat16", "bfloat16"))
    for name in ("max_abs_error", "rms_error", "spearman")
)


def present(run: RunFolder) -> Presentation:
    """A table of ``arrays/errors.npz``: one entry for each estimator, format and measure.

    Args:
        run: a finished run.

    Returns:
        What to show.

    Raises:
        AnalysisError: the array file lacks a column.
    """
    stored = run.arrays("errors")
    missing = [column for column in COLUMNS if column not in stored]
    if missing:
        raise AnalysisError(f"{run.path}/arrays/errors.npz: lacks {', '.join(missing)}")
    errors = pd.DataFrame({column: stored[column] for column in COLUMNS})
    joint = errors[errors["measure"] == "joint"].drop(columns="measure")
    return Presentation(
        f"{run.job}: {caption(run)}\n\n{markdown(joint)}",
        [Table("errors", "Error of alignments against float64 weights and features, by format", errors)],
        [],
    )
