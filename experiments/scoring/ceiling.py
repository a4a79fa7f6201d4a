"""How well measured gains predict measured gains: what no estimator can be expected to beat by much."""

import itertools

import numpy as np

from experiments.scoring.targets import mean, target_scores


def agreement(repeats: np.ndarray, mask: np.ndarray | None = None) -> float:
    """Mean Top-1 of one repeat's ranking of sources against another's, over ordered pairs of repeats.

    Args:
        repeats: Gains (R, T, T) of R repeats, e.g. fine-tuning seeds or halves of the held-out windows.
        mask: Candidates (T, T).

    Returns:
        The ceiling; NaN for a single repeat.
    """
    pairs = itertools.permutations(range(len(repeats)), 2)
    top1 = [mean(target_scores(repeats[i], repeats[j], mask).top1) for i, j in pairs]
    return mean(np.array(top1))


def transpose_top1(gain: np.ndarray, mask: np.ndarray | None = None) -> float:
    """Returns the Top-1 of the gains' own transpose as predictor: gain[j, i] stands in for gain[i, j]."""
    return mean(target_scores(np.asarray(gain).T, gain, mask).top1)
