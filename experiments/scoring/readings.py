"""Readings of a correlation over pairs: which corpora, and whether a corpus's pair with itself counts."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from experiments.scoring.candidates import all_others
from experiments.scoring.correlation import spearman
from experiments.scoring.mantel import matrix_correlation

LEVEL = 0.95


def reading(
    scores: Mapping[str, np.ndarray],
    truths: Mapping[str, np.ndarray],
    resampled: Mapping[str, np.ndarray],
    members: Sequence[int],
    *,
    diagonal: bool,
    seed: int = 0,
) -> dict[str, Any]:
    """Correlates estimators with measured reductions over all pairs of some corpora.

    Args:
        scores: Score matrices (T, T), [source, target], by estimator.
        truths: Reductions (T, T), by name.
        resampled: The same from resampled held-out windows (R, T, T).
        members: Indices of the corpora.
        diagonal: Whether a corpus's pair with itself counts.
        seed: Seed of the permutations, where not all are looked at.

    Returns:
        ``pairs``, ``corpora`` and ``p_floor`` (the least p that the Mantel test can give); by truth and then
        by measure and estimator ``spearman``, ``spearman_interval`` (95 %, over held-out windows: the noise
        of the losses, for these corpora), ``p_mantel`` and ``p_spearman`` (for independent pairs).
    """
    place = np.ix_(members, members)
    of_all: dict[str, Any] = {"corpora": len(members)}
    for truth, values in truths.items():
        rows: dict[str, dict[str, Any]] = {}
        draws = resampled[truth][:, place[0], place[1]]
        for name, matrix in scores.items():
            found = asdict(matrix_correlation(matrix[place], values[place], seed=seed, diagonal=diagonal))
            of_all["pairs"], of_all["p_floor"] = found["pairs"], found["p_floor"]
            rows.setdefault("spearman", {})[name] = found["spearman"]
            rows.setdefault("spearman_interval", {})[name] = _interval(matrix[place], draws, diagonal)
            for key in ("p_mantel", "p_spearman"):
                rows.setdefault(key, {})[name] = found[key]
        of_all[truth] = rows
    return of_all


def every_subset(
    scores: Mapping[str, np.ndarray], truth: np.ndarray, size: int, *, diagonal: bool
) -> tuple[np.ndarray, dict[str, dict[str, np.ndarray]]]:
    """Correlates over the pairs of every choice of ``size`` corpora: how much the choice matters.

    Args:
        scores: Score matrices (T, T), by estimator.
        truth: Reductions (T, T).
        size: Corpora chosen, 3 or more.
        diagonal: Whether a corpus's pair with itself counts.

    Returns:
        The choices (n, size) as indices; by estimator ``spearman``, ``p_mantel`` and ``p_spearman`` (n,).
    """
    choices = np.array(list(itertools.combinations(range(len(truth)), size)))
    table: dict[str, dict[str, np.ndarray]] = {}
    for name, matrix in scores.items():
        found = [
            matrix_correlation(matrix[np.ix_(c, c)], truth[np.ix_(c, c)], seed=0, diagonal=diagonal)
            for c in choices
        ]
        table[name] = {
            key: np.array([getattr(one, key) for one in found])
            for key in ("spearman", "p_mantel", "p_spearman")
        }
    return choices, table


def per_target(scores: Mapping[str, np.ndarray], gain: np.ndarray) -> dict[str, np.ndarray]:
    """Correlates each target's scores with its gains, the target itself left out.

    Args:
        scores: Score matrices (T, T), [source, target], by estimator.
        gain: Gains (T, T).

    Returns:
        Spearman's correlation (T,), by estimator.
    """
    others = all_others(len(gain))
    return {
        name: np.array([spearman(matrix[others[:, j], j], gain[others[:, j], j]) for j in range(len(gain))])
        for name, matrix in scores.items()
    }


def _interval(matrix: np.ndarray, draws: np.ndarray, diagonal: bool) -> list[float]:
    """Returns the 95 % interval of the correlation over draws (R, n, n) of the truth."""
    from scipy.stats import rankdata

    pairs = np.ones(matrix.shape, dtype=bool) if diagonal else all_others(len(matrix))
    a = rankdata(np.where(np.isnan(matrix[pairs]), -np.inf, matrix[pairs]))
    b = rankdata(draws[:, pairs], axis=-1)
    a, b = a - a.mean(), b - b.mean(axis=-1, keepdims=True)
    scale = np.sqrt((a @ a) * np.einsum("rp,rp->r", b, b))
    rho = np.divide(b @ a, scale, out=np.zeros(len(b)), where=scale > 0)
    low, high = np.quantile(rho, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return [float(low), float(high)]
