"""Choosing a training-free score on some of the targets, and what it is worth on the others."""

import itertools
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from experiments.draws import permutations
from experiments.errors import UserError
from experiments.scoring import bootstrap, candidates, picks
from experiments.scoring.correlation import spearman
from experiments.scoring.sign_flip import paired_test
from experiments.scoring.targets import mean

_CRITERIA = ("top1", "mean_regret", "mean_spearman")


def combined_scores(estimators: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns estimators, and for every pair of them the sum of ranks and the sum of standard scores.

    Ranks and standard scores are over a target's sources, so that no estimator's scale rules a sum. NaN ranks
    lowest and has the lowest standard score; a constant column has rank sum and standard score alike for all.

    Args:
        estimators: Score matrices (T, T), [source, target], by name.

    Returns:
        The matrices by name: ``a``, ``rank(a) + rank(b)``, ``z(a) + z(b)``.
    """
    ranks = {name: _ranks(matrix) for name, matrix in estimators.items()}
    standard = {name: _standard(matrix) for name, matrix in estimators.items()}
    scores = {name: np.asarray(matrix, dtype=np.float64) for name, matrix in estimators.items()}
    for first, second in itertools.combinations(estimators, 2):
        scores[f"rank({first}) + rank({second})"] = ranks[first] + ranks[second]
        scores[f"z({first}) + z({second})"] = standard[first] + standard[second]
    return scores


def selected_score(
    estimators: Mapping[str, np.ndarray],
    gain: np.ndarray,
    *,
    splits: int = 200,
    seed: int = 0,
    reference: str = "joint",
    sums: bool = True,
) -> dict[str, Any]:
    """Chooses the best of many scores on a random half of the targets and reports it on the other half.

    What is chosen and reported on the same targets looks better than it is: of two hundred scores one is
    lucky. Here no target counts in the choice that it reports on. Each of the ``splits`` halvings chooses
    anew; a target's value is its mean over the halvings that report on it, and the paired test is over
    targets. The halvings share targets, so that its p is approximate.

    Args:
        estimators: Score matrices (T, T), [source, target], by name; `combined_scores` adds the sums.
        gain: Gains (S, T, T) or (T, T) in nats/token; the mean over seeds is the truth.
        splits: Number of random halvings.
        seed: Seed of the halvings.
        reference: What the chosen score is compared with, one of ``estimators``.
        sums: Whether sums of two estimators are offered as well.

    Returns:
        For each criterion, ``by_top1`` (ties: lower mean regret), ``by_mean_regret`` and
        ``by_mean_spearman``: ``chosen``, the score chosen most often, and ``chosen_share``; for the chosen
        scores and the reference on the reporting halves ``top1``, ``mean_regret`` and ``mean_spearman``, each
        with its ``_reference``; the intervals of the differences, ``top1_difference_interval``,
        ``regret_difference_interval`` and ``spearman_difference_interval``, and their p,
        ``p_top1_against_<reference>`` and so on. Beside them ``n_scores``,
        ``splits``, and ``by_all_targets``: the best on all targets by each criterion with its values there,
        which are too good.

    Raises:
        UserError: The reference is not among the estimators, or fewer than four targets have a choice.
    """
    if reference not in estimators:
        raise UserError(f"reference={reference}: must be one of {', '.join(estimators)}")
    truth = np.asarray(gain, dtype=np.float64)
    truth = truth.mean(axis=0) if truth.ndim == 3 else truth
    valid = candidates.checked(truth, None).T
    total = len(truth)
    if total < 4:
        raise UserError(f"selected score: {total} targets; halves of them need at least 4")
    scores = combined_scores(estimators) if sums else dict(estimators)
    names = list(scores)
    gains = np.where(valid, truth.T, 0.0)
    top1 = np.stack([picks.top_k(scores[name].T, gains, valid, 1) for name in names])  # (N, T)
    regret = np.stack([picks.regret(scores[name].T, gains, valid) for name in names])  # (N, T)
    rho = np.stack([
        [spearman(scores[name][valid[j], j], truth[valid[j], j]) for j in range(total)] for name in names
    ])  # (N, T)
    of = {"top1": top1, "mean_regret": regret, "mean_spearman": rho}
    orders = permutations("selected score", seed, splits, total)
    result: dict[str, Any] = {"n_scores": len(names), "splits": splits, "by_all_targets": {}}
    for criterion in _CRITERIA:
        halves = [order[: total // 2] for order in orders]
        chosen = [_best({name: part[:, half] for name, part in of.items()}, criterion) for half in halves]
        reported = np.zeros((splits, total), dtype=bool)
        for split, order in enumerate(orders):
            reported[split, order[total // 2 :]] = True
        result[f"by_{criterion}"] = _report(names, chosen, reported, of, reference)
        overall = _best(of, criterion)
        result["by_all_targets"][criterion] = {
            "chosen": names[overall],
            "top1": mean(top1[overall]),
            "mean_regret": mean(regret[overall]),
            "mean_spearman": mean(rho[overall]),
        }
    return result


def _report(
    names: list[str],
    chosen: list[int],
    reported: np.ndarray,
    of: Mapping[str, np.ndarray],
    reference: str,
) -> dict[str, Any]:
    often, times = Counter(chosen).most_common(1)[0]
    values: dict[str, Any] = {"chosen": names[often], "chosen_share": times / len(chosen)}
    against = names.index(reference)
    for metric in _CRITERIA:
        label, parts = metric.removeprefix("mean_"), of[metric]
        times_reported = reported.sum(axis=0)  # (T,)
        total = np.sum(parts[chosen], axis=0, where=reported)
        mine = np.where(times_reported > 0, total / np.maximum(times_reported, 1), np.nan)
        theirs = np.where(times_reported > 0, parts[against], np.nan)
        values |= {
            metric: mean(mine),
            f"{metric}_reference": mean(theirs),
            f"{label}_difference_interval": list(bootstrap.interval(mine - theirs, seed=0)),
            f"p_{label}_against_{reference}": paired_test(mine, theirs, seed=0).p,
        }
    return values


def _best(of: Mapping[str, np.ndarray], criterion: str) -> int:
    """Returns which score (of N) is best on some targets (N, n); equal ones in the order given."""
    hits, losses = of["top1"].mean(axis=1), of["mean_regret"].mean(axis=1)
    keys = {"top1": (losses, -hits), "mean_regret": (-hits, losses)}
    if criterion == "mean_spearman":
        return int(np.argmax(of["mean_spearman"].mean(axis=1)))
    return int(np.lexsort(keys[criterion])[0])


def _ranks(matrix: np.ndarray) -> np.ndarray:
    """Returns the midranks (T, T) of each target's sources, NaN tied lowest, 0 on the diagonal."""
    from scipy.stats import rankdata

    scores = np.where(np.isnan(matrix), -np.inf, np.asarray(matrix, dtype=np.float64))
    np.fill_diagonal(scores, np.inf)  # ranks last, so it moves no other
    ranks = rankdata(scores, method="average", axis=0)
    np.fill_diagonal(ranks, 0.0)
    return ranks


def _standard(matrix: np.ndarray) -> np.ndarray:
    """Returns the standard scores (T, T) of each target's sources; NaN as low as the lowest, 0 if alike."""
    scores = np.array(matrix, dtype=np.float64)
    np.fill_diagonal(scores, np.nan)
    result = np.zeros_like(scores)
    for target in range(len(scores)):
        column = scores[:, target]
        known = ~np.isnan(column)
        if not known.any():
            continue
        filled = np.where(known, column, column[known].min())
        others = np.arange(len(scores)) != target
        spread = filled[others].std()
        if spread > 0:
            result[others, target] = (filled[others] - filled[others].mean()) / spread
    return result
