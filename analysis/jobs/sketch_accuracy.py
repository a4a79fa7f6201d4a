"""Sketch accuracy: the error of sketched alignments against exact ones, by features and by bytes."""

import numpy as np
import pandas as pd

from analysis.caption import data_of, model_of, samples_of
from analysis.errors import AnalysisError
from analysis.figures import accuracy_curve
from analysis.load import RunFolder
from analysis.presentation import Figure, Presentation, Table
from analysis.tables import markdown

SKETCH = ["projection", "num_features", "signature", "payload_bytes"]
MEASURES = (
    "rmse_joint",
    "spearman_joint",
    "max_error_joint",
    "z_sd_low",
    "z_sd_high",
    "rmse_joint_stream_alone",
    "spearman_joint_stream_alone",
    "rmse_activation",
    "rmse_error",
    "rmse_coupling",
    "spearman_activation",
    "spearman_error",
    "spearman_coupling",
)
METRICS = tuple(
    f"accuracy.block_hadamard.{sketch}.{name}.mean"
    for sketch in ("4096.float32", "16384.int8", "32768.int4")
    for name in ("rmse_joint", "spearman_joint")
)


def present(run: RunFolder) -> Presentation:
    """A table and a figure of ``arrays/accuracy.npz``: one entry for each sketch, signature and draw.

    Args:
        run: a finished run.

    Returns:
        What to show.

    Raises:
        AnalysisError: the array file lacks a column.
    """
    stored = run.arrays("accuracy")
    missing = [column for column in (*SKETCH, "seed", *MEASURES) if column not in stored]
    if missing:
        raise AnalysisError(f"{run.path}/arrays/accuracy.npz: lacks {', '.join(missing)}")
    draws = pd.DataFrame({column: stored[column] for column in (*SKETCH, "seed", *MEASURES)})
    count = draws["seed"].nunique()
    line = f"Model {model_of(run)}, data {data_of(run)}, n = {samples_of(run)}, {count} draws of features."
    reference = gaussian_reference(run.arrays("exact")["joint"])
    spread = _spread(draws)
    short = spread[[*SKETCH, *spread.columns[4:16]]]
    return Presentation(
        f"{run.job}: {line}\n\n{markdown(short)}",
        [
            Table("accuracy", "Sketched against exact alignments: mean, least and most over draws", spread),
            Table("draws", "Sketched against exact alignments, each draw", draws),
        ],
        [
            Figure(
                "error_against_features_and_bytes",
                "Error of the joint alignment against features and bytes of a signature",
                "Curves of the error. " + _in_words(spread),
                lambda: accuracy_curve.draw(draws, reference, line),
            )
        ],
    )


def gaussian_reference(joint: np.ndarray) -> float:
    """The error that normal features would give at m = 1, the root mean square of 1 - c^2 over the pairs.

    Args:
        joint: exact cosines, (T, T).

    Returns:
        What, over the root of m, is the error.
    """
    pairs = joint[np.triu_indices(len(joint), 1)]
    return float(np.sqrt(np.nanmean((1 - pairs**2) ** 2)))


def _spread(draws: pd.DataFrame) -> pd.DataFrame:
    grouped = draws.groupby(SKETCH, sort=False)
    parts = {}
    for name in MEASURES:
        parts[name] = grouped[name].mean()
        parts[f"{name}_min"], parts[f"{name}_max"] = grouped[name].min(), grouped[name].max()
    return pd.DataFrame(parts).reset_index()


def _in_words(spread: pd.DataFrame) -> str:
    return " ".join(
        f"{row.projection}, {row.num_features:,} features in {row.signature}: {row.rmse_joint:.4f}."
        for row in spread.itertuples()
    )
