"""Percentile bootstrap of a mean over targets."""

import numpy as np

from experiments.draws import indices


def interval(
    values: np.ndarray, *, seed: int, level: float = 0.95, resamples: int = 10_000
) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean (Efron, 1979), targets drawn with replacement.

    It shows the spread over which targets were asked about; the noise of the gains themselves is in it only
    as far as it differs between targets. The same seed resamples the same targets for every estimator.

    Args:
        values: One value a target (T,); NaN ones are left out.
        seed: Seed of the draws.
        level: Coverage.
        resamples: Number of resamples.

    Returns:
        Lower and upper end; NaN without a value.
    """
    values = values[~np.isnan(values)]
    if values.size == 0:
        return float("nan"), float("nan")
    means = values[indices("bootstrap", seed, (resamples, values.size), values.size)].mean(axis=1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
