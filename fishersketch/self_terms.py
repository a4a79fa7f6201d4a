"""Inner products of a task with itself: what normalises an alignment, and where its bias sits."""

from dataclasses import asdict, dataclass

import torch

SELF_TERMS = ("split", "plain")


@dataclass(frozen=True)
class SelfTerms:
    r"""Estimates of one task's self terms, from one pair of feature vectors (or the exact kernels).

    Attributes:
        joint: <F, F>.
        activation: <M, M>.
        error: <Gamma, Gamma>.
        separable: <M (x) Gamma, M (x) Gamma>.
        cross: <F, M (x) Gamma>; of no meaning for sample_unit="sequence".
    """

    joint: float
    activation: float
    error: float
    separable: float
    cross: float

    def to_dict(self) -> dict[str, float]:
        """Returns the five terms by name."""
        return asdict(self)

    @property
    def squared_gap(self) -> float:
        r"""Squared separability gap ||F - M (x) Gamma||^2 / ||M (x) Gamma||^2; negative at times if split."""
        if self.separable <= 0:
            return float("nan")
        return (self.joint - 2 * self.cross + self.separable) / self.separable


def sketched_self_terms(first: torch.Tensor, second: torch.Tensor) -> SelfTerms:
    """Returns the self terms between two estimates of one task's streams.

    With the two halves' means the terms are free of a sample meeting itself; with the overall mean twice
    they are the plain ones, larger by (E k(x, x) - |F|^2) / n.

    Args:
        first: (3, m) float64 means of the joint, activation and error streams.
        second: (3, m) likewise.
    """
    m = first.shape[1]
    separable_1, separable_2 = first[1] * first[2], second[1] * second[2]
    return SelfTerms(
        joint=float(first[0] @ second[0]) / m,
        activation=float(first[1] @ second[1]) / m,
        error=float(first[2] @ second[2]) / m,
        separable=float(separable_1 @ separable_2) / m,
        cross=float(first[0] @ separable_2 + second[0] @ separable_1) / (2 * m),
    )
