"""Top-k and regret of the sources that scores pick, in expectation over random tie-breaking.

Every function works on the last axis, the candidates of one target. A NaN score ranks below every number, so
it is never picked while another candidate has a number; candidates that are all NaN are all tied, and the
pick is random. Gains of candidates must be finite.
"""

import numpy as np


def preference(scores: np.ndarray, valid: np.ndarray) -> np.ndarray:
    """Ranks candidates by score: equal scores get equal integers, a higher score a higher one.

    Args:
        scores: Scores (..., n).
        valid: Which entries are candidates (..., n).

    Returns:
        Dense ranks from 1, 0 for what is no candidate (..., n), int64.
    """
    from scipy.stats import rankdata

    numbers = np.where(np.isnan(scores), -np.inf, scores)
    return np.where(valid, rankdata(numbers, method="dense", axis=-1), 0).astype(np.int64)


def best(values: np.ndarray, valid: np.ndarray) -> np.ndarray:
    """Returns which candidates hold the highest value, as booleans (..., n)."""
    return valid & (values == np.max(values, axis=-1, keepdims=True, where=valid, initial=-np.inf))


def top_k(scores: np.ndarray, gains: np.ndarray, valid: np.ndarray, k: int) -> np.ndarray:
    """Probability that the best source is among the k highest scores, ties on both sides broken at random.

    With ``a`` candidates strictly above the best source and ``t`` tied with it (itself included), it is in
    the first k with probability min(max(k - a, 0) / t, 1). So constant scores give exactly k / n.

    Args:
        scores: Scores (..., n).
        gains: Gains (..., n), finite where valid.
        valid: Which entries are candidates (..., n).
        k: How many sources are picked.

    Returns:
        Probabilities (...), NaN for a target with fewer than two candidates.
    """
    from scipy.stats import rankdata

    rank = preference(scores, valid)
    lowest_place = valid.shape[-1] - rankdata(rank, method="min", axis=-1)  # of the tied: places are from 0
    above = valid.shape[-1] - rankdata(rank, method="max", axis=-1)
    hit = np.clip((k - above) / (lowest_place - above + 1), 0, 1)
    truth = best(gains, valid)
    enough = valid.sum(axis=-1) >= 2
    return np.where(enough, (hit * truth).sum(axis=-1) / np.maximum(truth.sum(axis=-1), 1), np.nan)


def regret(scores: np.ndarray, gains: np.ndarray, valid: np.ndarray) -> np.ndarray:
    """Best gain minus the expected gain of the pick, the tied picks being equally likely.

    Args:
        scores: Scores (..., n).
        gains: Gains (..., n), finite where valid.
        valid: Which entries are candidates (..., n).

    Returns:
        Regrets (...) in the gain's unit (nats/token), NaN for a target with fewer than two candidates.
    """
    rank = preference(scores, valid)
    picks = valid & (rank == rank.max(axis=-1, keepdims=True))
    picked = np.sum(gains, axis=-1, where=picks) / np.maximum(picks.sum(axis=-1), 1)
    return np.where(valid.sum(axis=-1) >= 2, best_gain(gains, valid) - picked, np.nan)


def best_gain(gains: np.ndarray, valid: np.ndarray) -> np.ndarray:
    """Returns the highest gain of each target (...), -inf where there is no candidate."""
    return np.max(gains, axis=-1, where=valid, initial=-np.inf)


def relative(regrets: np.ndarray, best_gains: np.ndarray) -> np.ndarray:
    """Returns regret / best gain where the best gain is positive (...), NaN elsewhere."""
    positive = best_gains > 0
    return np.where(positive, regrets / np.where(positive, best_gains, 1.0), np.nan)
