"""The score table of a run: all candidates, within groups, without siblings, and few candidates a target."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from experiments.scoring.candidates import all_others, without_siblings
from experiments.scoring.candidates import within_groups as groups_mask
from experiments.scoring.subsets import subset_scores
from experiments.scoring.table import score_table

# As we read the paper's protocol: 45.7 % is 10.9 times random at 1 of 24.
CANDIDATES = 24
# A source that holds more of a target's held-out text (before it was dropped) counts as its sibling.
SIBLING_OVERLAP = 0.1


def sibling_mask(
    names: Sequence[str], siblings: Mapping[str, Sequence[str]], overlap: np.ndarray
) -> np.ndarray:
    """Returns the candidates (T, T) that are no siblings of their target.

    Args:
        names: Names of the T domains.
        siblings: Families of domains that share text by descent.
        overlap: Share of the held-out spans of target j that source i's training text holds too (T, T).
    """
    family = {name: number for number, members in enumerate(siblings.values()) for name in members}
    of = np.array([family.get(name, -1 - index) for index, name in enumerate(names)])
    return without_siblings(overlap, SIBLING_OVERLAP) & (of[:, None] != of[None, :])


def score_sections(
    estimators: Mapping[str, np.ndarray],
    gain: np.ndarray,
    groups: Sequence[str],
    no_siblings: np.ndarray,
    half_gains: np.ndarray | None = None,
) -> dict[str, Any]:
    """Scores estimators on all candidates and on three choices of them.

    Args:
        estimators: Score matrices (T, T), [source, target], by name.
        gain: Gains (S, T, T) in nats/token.
        groups: Group of each domain.
        no_siblings: Candidates that are no siblings of their target (T, T).
        half_gains: Gains (2, T, T) on two halves of the held-out windows.

    Returns:
        `score_table` of all candidates; ``within_groups``, where a group has three domains or more;
        ``without_siblings``, where there is a sibling; ``candidates_24`` (`subset_scores`), where a target
        has as many candidates.
    """
    table = score_table(estimators, gain, half_gains=half_gains)
    mask = groups_mask(groups)
    if mask.sum(axis=0).max() >= 2:
        table["within_groups"] = score_table(estimators, gain, mask, half_gains=half_gains)
    if (no_siblings != all_others(len(groups))).any():
        section = score_table(estimators, gain, no_siblings, half_gains=half_gains)
        table["without_siblings"] = section | {
            "n_sibling_pairs": int((all_others(len(groups)) & ~no_siblings).sum())
        }
    if len(groups) > CANDIDATES:
        table[f"candidates_{CANDIDATES}"] = subset_scores(estimators, gain, count=CANDIDATES)
    return table
