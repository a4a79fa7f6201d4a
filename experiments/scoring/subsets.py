"""Scores averaged over random sets of candidates, as when each target is offered only some of the sources."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from experiments.draws import words
from experiments.errors import UserError
from experiments.scoring import bootstrap, candidates, picks
from experiments.scoring.targets import mean


def subset_scores(
    estimators: Mapping[str, np.ndarray],
    gain: np.ndarray,
    mask: np.ndarray | None = None,
    *,
    count: int = 24,
    draws: int = 1_000,
    seed: int = 0,
) -> dict[str, Any]:
    """Expected scores when every target chooses among ``count`` sources drawn at random without replacement.

    The same sets are drawn for every estimator.

    Args:
        estimators: Score matrices (T, T), [source, target], by name.
        gain: Gains (S, T, T) or (T, T) in nats/token; the mean over seeds is the truth.
        mask: Sources to draw from (T, T); all others by default.
        count: Candidates a target.
        draws: Sets drawn for each target.
        seed: Seed of the draws.

    Returns:
        By metric, then by estimator: ``top1`` with its 95 % ``top1_interval`` over targets and its multiple
        of random, ``top1_over_random``, ``top3``, ``mean_regret``, ``max_regret`` (the worst target of a
        draw, averaged over draws) and ``mean_regret_relative``; beside them ``random_top1`` = 1 / count,
        ``candidates`` and ``draws``.

    Raises:
        UserError: For a target with fewer sources to draw from than ``count``, or a ``count`` below 2.
    """
    truth = np.asarray(gain, dtype=np.float64)
    truth = truth.mean(axis=0) if truth.ndim == 3 else truth
    valid = candidates.checked(truth, mask)
    available = valid.sum(axis=0)
    if count < 2 or available.min() < count:
        where = f"target {int(available.argmin())} has {int(available.min())} candidates"
        raise UserError(f"candidates={count}: must be from 2 to what every target has; {where}")
    totals = len(truth)
    drawn = np.stack([_sets(j, valid[:, j], count, draws, seed) for j in range(totals)])  # (T, draws, count)
    gains = truth[drawn, np.arange(totals)[:, None, None]]
    chosen = np.ones(drawn.shape, dtype=bool)
    best = picks.best_gain(gains, chosen)
    table: dict[str, Any] = {}
    for name, matrix in estimators.items():
        scores = np.asarray(matrix, dtype=np.float64)[drawn, np.arange(totals)[:, None, None]]
        top1 = picks.top_k(scores, gains, chosen, 1).mean(axis=1)
        regret = picks.regret(scores, gains, chosen)  # (T, draws)
        row = {
            "top1": mean(top1),
            "top1_over_random": mean(top1) * count,
            "top1_interval": list(bootstrap.interval(top1, seed=seed)),
            "top3": mean(picks.top_k(scores, gains, chosen, 3)),
            "mean_regret": mean(regret),
            "max_regret": mean(regret.max(axis=0)),
            "mean_regret_relative": mean(picks.relative(regret, best)),
        }
        for metric, value in row.items():
            table.setdefault(metric, {})[name] = value
    return table | {"random_top1": 1 / count, "candidates": count, "draws": draws}


def _sets(target: int, valid: np.ndarray, count: int, draws: int, seed: int) -> np.ndarray:
    """Returns sets of ``count`` different sources (draws, count): those with the smallest random words."""
    sources = np.flatnonzero(valid)
    keys = words(f"subset {target}", seed, draws * sources.size).reshape(draws, sources.size)
    return sources[np.argsort(keys, axis=1, kind="stable")[:, :count]]
