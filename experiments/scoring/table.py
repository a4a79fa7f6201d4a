"""The metrics of several estimators against one transfer matrix."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from experiments.scoring import bootstrap, candidates, ceiling
from experiments.scoring.mantel import matrix_correlation
from experiments.scoring.sign_flip import paired_test
from experiments.scoring.targets import mean, random_top1, target_scores


def score_table(
    estimators: Mapping[str, np.ndarray],
    gain: np.ndarray,
    mask: np.ndarray | None = None,
    *,
    half_gains: np.ndarray | None = None,
    seed: int = 0,
    reference: str = "joint",
) -> dict[str, Any]:
    """Scores every estimator's matrix against measured gains; plain numbers, ready for ``metrics.json``.

    Args:
        estimators: Score matrices (T, T), [source, target], by name.
        gain: Gains (S, T, T), one a fine-tuning seed, in nats/token; the mean over seeds is the truth.
        mask: Candidates (T, T); all other sources by default.
        half_gains: Gains (2, T, T) on two halves of the held-out windows, for a ceiling from one seed.
        seed: Seed of the resampling.
        reference: Estimator that the paired tests compare with; no tests when it is not among them.

    Returns:
        By metric, then by estimator: ``top1`` with its 95 % ``top1_interval`` over targets and its multiple
        of a random pick's, ``top1_over_random``, ``top3``, ``mean_regret`` with ``mean_regret_interval``,
        ``max_regret``, ``mean_regret_relative``, ``mean_spearman``, ``undefined_scores`` (NaN candidates,
        ranked last), ``p_top1_against_<reference>``, ``p_regret_against_<reference>``,
        ``p_spearman_against_<reference>`` and, without a mask,
        ``matrix_spearman``, ``matrix_p_mantel`` and ``matrix_p_spearman`` over all pairs. Of the table
        itself: ``random_top1``, ``ceiling_top1_seeds`` (NaN for a single seed), ``ceiling_top1_halves`` if
        they are given, ``ceiling_top1_transpose``, ``matrix_p_floor``, ``n_targets``, ``n_seeds``,
        ``mean_candidates`` and a ``note`` that says how much the reference's Top-1 rests on.

    Raises:
        UserError: As `target_scores`.
    """
    gain = np.asarray(gain, dtype=np.float64)
    truth = gain.mean(axis=0)
    by_name = {name: target_scores(scores, truth, mask) for name, scores in estimators.items()}
    table: dict[str, Any] = {}
    for name, of in by_name.items():
        row: dict[str, Any] = {
            "top1": mean(of.top1),
            "top1_interval": list(bootstrap.interval(of.top1, seed=seed)),
            "top3": mean(of.top3),
            "mean_regret": mean(of.regret),
            "mean_regret_interval": list(bootstrap.interval(of.regret, seed=seed)),
            "max_regret": float(np.fmax.reduce(of.regret)),
            "mean_regret_relative": mean(of.regret_relative),
            "mean_spearman": mean(of.spearman),
            "undefined_scores": int(of.undefined.sum()),
        }
        if mask is None:
            pairs = matrix_correlation(estimators[name], truth, seed=seed)
            row["matrix_spearman"] = pairs.spearman
            row["matrix_p_mantel"], row["matrix_p_spearman"] = pairs.p_mantel, pairs.p_spearman
            table["matrix_p_floor"] = pairs.p_floor
        if reference in by_name and name != reference:
            base = by_name[reference]
            row[f"p_top1_against_{reference}"] = paired_test(of.top1, base.top1, seed=seed).p
            row[f"p_regret_against_{reference}"] = paired_test(of.regret, base.regret, seed=seed).p
            row[f"p_spearman_against_{reference}"] = paired_test(of.spearman, base.spearman, seed=seed).p
        for metric, value in row.items():
            table.setdefault(metric, {})[name] = value
    count = candidates.checked(truth, mask).sum(axis=0)
    table |= {
        "random_top1": random_top1(truth, mask),
        "ceiling_top1_seeds": ceiling.agreement(gain, mask),
        "ceiling_top1_transpose": ceiling.transpose_top1(truth, mask),
        "n_targets": int((count >= 2).sum()),
        "n_seeds": len(gain),
        "mean_candidates": mean(np.where(count >= 2, count, np.nan)),
    }
    table["top1_over_random"] = {name: value / table["random_top1"] for name, value in table["top1"].items()}
    if half_gains is not None:
        table["ceiling_top1_halves"] = ceiling.agreement(half_gains, mask)
    if reference in by_name:
        table["note"] = _note(reference, table)
    return table


def _note(name: str, table: Mapping[str, Any]) -> str:
    low, high = table["top1_interval"][name]
    return (
        f"Top-1 of {name}: {table['top1'][name]:.1%} on {table['n_targets']} targets, 95 % interval "
        f"{low:.1%} to {high:.1%} ({high - low:.1%} wide); a random pick: {table['random_top1']:.1%}"
    )
