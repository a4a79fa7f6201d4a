"""Spearman correlation of one target's scores with its gains."""

import numpy as np


def midranks(values: np.ndarray) -> np.ndarray:
    """Returns the ranks (n,) of values (n,), the mean rank where equal, NaN tied below every number."""
    from scipy.stats import rankdata

    return rankdata(np.where(np.isnan(values), -np.inf, values), method="average")


def spearman(first: np.ndarray, second: np.ndarray) -> float:
    """Spearman's correlation of two vectors (n,) with midranks.

    Returns:
        The correlation; 0 when one side is constant, its mean over random orders; NaN below two values.
    """
    if first.size < 2:
        return float("nan")
    a, b = midranks(first), midranks(second)
    a, b = a - a.mean(), b - b.mean()
    scale = np.sqrt((a @ a) * (b @ b))
    return float(np.clip(a @ b / scale, -1, 1)) if scale > 0 else 0.0
