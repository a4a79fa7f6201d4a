"""Paired permutation test between two estimators: on each target, which is which is a coin toss."""

from dataclasses import dataclass

import numpy as np

from experiments.draws import signs

_EXACT_UP_TO = 16
_TOLERANCE = 1e-12


@dataclass(frozen=True)
class PairedTest:
    """Result of a paired permutation test.

    Attributes:
        difference: Mean of first - second.
        p: Two-sided p.
        p_floor: Smallest p that this number of differing targets, or of draws, can give.
        exact: Whether every assignment was looked at.
    """

    difference: float
    p: float
    p_floor: float
    exact: bool


def paired_test(first: np.ndarray, second: np.ndarray, *, seed: int, resamples: int = 9_999) -> PairedTest:
    """Sign-flip test of equal means (Fisher, 1935), exact up to 16 targets on which the two differ.

    Targets on which both agree are unchanged by a flip and are left out. Beyond 16 the p is (k + 1) / (n + 1)
    from n random flips, k of them at least as extreme.

    Args:
        first: One value a target (T,).
        second: The other estimator's (T,); targets that are NaN on either side are left out.
        seed: Seed of the random flips.
        resamples: Number of random flips.

    Returns:
        The test.
    """
    both = first - second
    both = both[~np.isnan(both)]
    difference = float(both.mean()) if both.size else float("nan")
    moved = both[both != 0]
    exact = moved.size <= _EXACT_UP_TO
    if exact:
        codes = np.arange(2**moved.size)[:, None] >> np.arange(moved.size)
        flips = 1.0 - 2.0 * (codes & 1)
    else:
        flips = signs("sign flip", seed, resamples, moved.size)
    slack = _TOLERANCE * np.abs(moved).sum()
    extreme = int(np.sum(np.abs(flips @ moved) >= abs(moved.sum()) - slack))
    if exact:
        return PairedTest(difference, extreme / len(flips), min(1.0, 2.0 / len(flips)), True)
    return PairedTest(difference, (extreme + 1) / (resamples + 1), 1 / (resamples + 1), False)
