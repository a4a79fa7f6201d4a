"""How far sketched alignments are from the exact ones, over all pairs of tasks."""

from collections.abc import Mapping

import numpy as np

MEASURES = ("joint", "activation", "error", "coupling")
HIGH = 0.6  # where cosines count as high


def sketch_error(sketched: Mapping[str, np.ndarray], exact: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Returns the error of a sketch over the pairs i < j that are defined on both sides.

    Args:
        sketched: Matrices (T, T) of joint, activation, error, coupling and stderr_sketch.
        exact: The same, of the exact alignment.

    Returns:
        ``spearman_<measure>`` and ``rmse_<measure>`` of each, NaN for fewer than three pairs, and ``z_sd``,
        the root mean square of (sketched - exact) / stderr_sketch of the joint alignment: 1 where the
        standard errors are right; ``z_sd_low`` and ``z_sd_high`` are it for exact cosines below 0.6 and from
        0.6 on, NaN where there are none; ``max_error_joint`` is the largest error.
    """
    from scipy.stats import spearmanr

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
    stderr, high = sketched["stderr_sketch"][upper], exact["joint"][upper] >= HIGH
    defined = np.isfinite(difference) & (stderr > 0)
    for name, part in (("z_sd", defined), ("z_sd_low", defined & ~high), ("z_sd_high", defined & high)):
        scores = difference[part] / stderr[part]
        values[name] = float(np.sqrt(np.mean(scores**2))) if part.any() else np.nan
    values["max_error_joint"] = float(np.abs(difference[defined]).max()) if defined.any() else np.nan
    return values
