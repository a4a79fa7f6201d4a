"""Top-1, Top-3, regret and Spearman of one score matrix, target by target."""

from dataclasses import dataclass

import numpy as np

from experiments.errors import UserError
from experiments.scoring import candidates, picks
from experiments.scoring.correlation import spearman


@dataclass(frozen=True)
class TargetScores:
    """One value a target (T,), NaN for a target with fewer than two candidates.

    Attributes:
        top1: Probability that the pick is the best source.
        top3: Probability that the best source is among the first three.
        regret: Best gain minus the pick's, in the gain's unit (nats/token).
        regret_relative: Regret over the best gain; NaN too where the best gain is not positive.
        spearman: Rank correlation of scores with gains.
        candidates: Number of candidates.
        undefined: Number of candidates whose score is NaN.
    """

    top1: np.ndarray
    top3: np.ndarray
    regret: np.ndarray
    regret_relative: np.ndarray
    spearman: np.ndarray
    candidates: np.ndarray
    undefined: np.ndarray


def target_scores(scores: np.ndarray, gain: np.ndarray, mask: np.ndarray | None = None) -> TargetScores:
    """Scores how well a matrix picks sources; `experiments.scoring.picks` has the rules for ties and NaN.

    Args:
        scores: Estimated transfer (T, T), [source, target]; the diagonal is not looked at.
        gain: Measured gain (T, T), [source, target], in nats/token.
        mask: Candidates (T, T), [source, target]; all other sources by default.

    Returns:
        One value a target.

    Raises:
        UserError: For shapes that differ, or a candidate whose gain is not finite.
    """
    scores, gain = np.asarray(scores, dtype=np.float64), np.asarray(gain, dtype=np.float64)
    if scores.shape != gain.shape:
        raise UserError(f"scores {scores.shape} and gain {gain.shape}: both must be (T, T), [source, target]")
    valid = candidates.checked(gain, mask).T  # (T target, T source)
    s, g = scores.T, np.where(valid, gain.T, 0.0)
    regret = picks.regret(s, g, valid)
    rho = [spearman(s[j, valid[j]], g[j, valid[j]]) for j in range(len(s))]
    return TargetScores(
        top1=picks.top_k(s, g, valid, 1),
        top3=picks.top_k(s, g, valid, 3),
        regret=regret,
        regret_relative=picks.relative(regret, picks.best_gain(g, valid)),
        spearman=np.array(rho),
        candidates=valid.sum(axis=1),
        undefined=(valid & np.isnan(s)).sum(axis=1),
    )


def random_top1(gain: np.ndarray, mask: np.ndarray | None = None) -> float:
    """Returns the Top-1 of a random pick: the mean of 1 / candidates over targets with two or more."""
    valid = candidates.checked(np.asarray(gain, dtype=np.float64), mask)
    count = valid.sum(axis=0)
    return mean(1.0 / count[count >= 2])


def mean(values: np.ndarray) -> float:
    """Returns the mean of the values that are not NaN, NaN without any."""
    kept = values[~np.isnan(values)]
    return float(kept.mean()) if kept.size else float("nan")
