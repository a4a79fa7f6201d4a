"""How far sketched alignments are from the exact ones, over all pairs of tasks."""

from collections.abc import Mapping

import numpy as np
from scipy.stats import spearmanr

MEASURES = ("joint", "activation", "error", "coupling")


def sketch_error(sketched: Mapping[str, np.ndarray], exact: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Returns the error of a sketch over the pairs i < j that are defined on both sides.

    Args:
        sketched: Matrices (T, T) of joint, activation, error, coupling and stderr_sketch.
        exact: The same, of the exact alignment.

    Returns:
        ``spearman_<measure>`` and ``rmse_<measure>`` of each, NaN for fewer than three pairs, and ``z_sd``,
        the standard deviation of (sketched - exact) / stderr_sketch of the joint alignment: 1 where the
        standard errors are right.
    """
    values = {}
    upper = np.triu_indices(len(exact["joint"]), 1)
    for name in MEASURES:
        mine, theirs = sketched[name][upper], exact[name][upper]
        kept = np.isfinite(mine) & np.isfinite(theirs)
        enough = kept.sum() >= 3
        values[f"spearman_{name}"] = float(spearmanr(mine[kept], theirs[kept])[0]) if enough else np.nan
        values[f"rmse_{name}"] = (
            float(np.sqrt(np.mean((mine[kept] - theirs[kept]) ** 2))) if enough else np.nan
        )
    difference = sketched["joint"][upper] - exact["joint"][upper]
    values["z_sd"] = float(np.sqrt(np.nanmean((difference / sketched["stderr_sketch"][upper]) ** 2)))
    return values
