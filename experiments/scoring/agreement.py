"""How well estimated alignments agree with exact ones: rank and linear correlation, error, intervals."""

import numpy as np

from experiments.draws import indices
from experiments.scoring.correlation import spearman

STATISTICS = ("spearman", "pearson", "rmse")


def agreement(estimated: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Returns Spearman and Pearson correlation and root mean square error of paired values.

    Args:
        estimated: Values (n,).
        exact: Values (n,); a pair with a NaN on either side is left out.

    Returns:
        (3,) in the order of `STATISTICS`; NaN for fewer than three pairs, and a correlation with a constant
        side.
    """
    kept = np.isfinite(estimated) & np.isfinite(exact)
    first, second = estimated[kept], exact[kept]
    if first.size < 3:
        return np.full(3, np.nan)
    rmse = float(np.sqrt(np.mean((first - second) ** 2)))
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return np.array([np.nan, np.nan, rmse])
    return np.array([spearman(first, second), np.corrcoef(first, second)[0, 1], rmse])


def task_interval(
    estimated: np.ndarray, exact: np.ndarray, *, seed: int, resamples: int, level: float = 0.95
) -> np.ndarray:
    """Percentile bootstrap interval over tasks of the mean of `agreement` over several estimates.

    Tasks are drawn with replacement and a statistic is taken over the pairs of two different tasks among
    them, since pairs that share a task are not independent.

    Args:
        estimated: Matrices (S, T, T), or values of single tasks (S, T).
        exact: Matrix (T, T), or values (T,).
        seed: Seed of the draws.
        resamples: Number of resamples.
        level: Coverage.

    Returns:
        (2, 3) lower and upper ends in the order of `STATISTICS`.
    """
    count = len(exact)
    drawn = indices("task bootstrap", seed, (resamples, count), count)
    values = np.empty((resamples, 3))
    first, second = np.triu_indices(count, 1)
    for place, tasks in enumerate(drawn):
        if exact.ndim == 1:
            samples, truth = estimated[:, tasks], exact[tasks]
        else:
            i, j = tasks[first], tasks[second]
            i, j = i[i != j], j[i != j]
            samples, truth = estimated[:, i, j], exact[i, j]
        values[place] = np.mean([agreement(sample, truth) for sample in samples], axis=0)
    tails = [(1 - level) / 2, (1 + level) / 2]
    if np.isnan(values).all(axis=0).any():
        return np.full((2, 3), np.nan)
    return np.nanquantile(values, tails, axis=0)
