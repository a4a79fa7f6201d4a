"""Whether activations and errors depend on each other: the separability gap against permuted errors."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from experiments.draws import permutations
from fishersketch import exact_align


@dataclass(frozen=True)
class Separability:
    """The squared gap |F - M (x) Gamma|^2 / |M (x) Gamma|^2 of a task, and what it is without dependence.

    Attributes:
        squared: The split estimate; it can be negative where the gap is 0.
        plain: The plug-in value, which counts every sample's meeting with itself.
        null: Split estimates (R,) with the errors permuted.
        null_plain: Plug-in values (R,) with the errors permuted.
    """

    squared: float
    plain: float
    null: np.ndarray
    null_plain: np.ndarray

    @property
    def p(self) -> float:
        """Share of permutations, this order among them, whose split estimate is as large."""
        return float((1 + (self.null >= self.squared).sum()) / (1 + len(self.null)))


def separability(
    activations: torch.Tensor,
    errors: torch.Tensor,
    group: torch.Tensor,
    repeats: int,
    domain: str,
    seed: int,
) -> Separability:
    """Estimates a task's gap and its null.

    Errors are permuted within the even and within the odd windows, so that both halves keep their M and Gamma
    exactly and only the pairing of a and e is lost.

    Args:
        activations: Activations (N, d).
        errors: Errors (N, C), or what has the same inner products.
        group: Window of each token (N,), of both parities.
        repeats: Number of permutations, R.
        domain: Name of the task.
        seed: Draws the permutations.

    Returns:
        The estimates.
    """

    def squares(paired: torch.Tensor) -> tuple[float, float]:
        task = [(activations, paired, group)]
        split, plain = (float(exact_align(task, terms).squared_gap) for terms in ("split", "plain"))
        return split, plain

    observed = squares(errors)
    null = []
    for order in permutations(f"separability {domain}", seed, repeats, len(errors)):
        drawn = torch.from_numpy(order)
        paired = torch.empty_like(errors)
        for half in (0, 1):
            places = (group % 2 == half).nonzero().flatten()
            paired[places] = errors[drawn[group[drawn] % 2 == half]]
        null.append(squares(paired))
    split, plain = np.array(null).T
    return Separability(*observed, split, plain)


def summarised_gaps(gaps: Mapping[str, Separability]) -> dict[str, Any]:
    """Returns gaps delta by text, and their means; 0 stands for one whose square is estimated negative.

    Args:
        gaps: The estimates of each text.

    Returns:
        ``gap``, ``null`` (the 95 % quantile of the permuted), ``plain`` and ``null_plain`` (the mean of the
        permuted), each the mean over texts; the largest ``p``; and all of them ``by_domain``.
    """
    by_domain = {
        name: {
            "gap": _root(found.squared),
            "null": _root(np.quantile(found.null, 0.95)),
            "plain": _root(found.plain),
            "null_plain": _root(found.null_plain.mean()),
            "p": found.p,
        }
        for name, found in gaps.items()
    }
    rows = list(by_domain.values())
    means = {name: float(np.mean([row[name] for row in rows])) for name in rows[0] if name != "p"}
    return means | {"p": max(row["p"] for row in rows), "by_domain": by_domain}


def _root(squared: Any) -> float:
    return float(max(squared, 0.0)) ** 0.5
