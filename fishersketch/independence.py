"""Whether activations and errors of a layer are independent, as Kronecker-factored Fisher matrices assume."""

from dataclasses import dataclass

import torch

from fishersketch.errors import FisherSketchError
from fishersketch.samples import check_samples


@dataclass(frozen=True)
class IndependenceTest:
    """The separability gap of one task in one layer, against the gap that chance makes.

    Attributes:
        squared_gap: delta^2 = ||F - M (x) Gamma||^2 / ||M (x) Gamma||^2, unbiased by halves; of either sign.
        null: (P,) the same with the errors permuted among the tokens of their half.
        p: share of permutations with a gap as large, the data among them.
    """

    squared_gap: float
    null: torch.Tensor
    p: float


def independence_test(
    activations: torch.Tensor,
    errors: torch.Tensor,
    group: torch.Tensor,
    permutations: int,
    generator: torch.Generator,
) -> IndependenceTest:
    r"""Tests F = M (x) Gamma, which holds where activations and errors are independent.

    A token is one sample: F = E[(a a^T) (x) (e e^T)], the matrix that K-FAC replaces by M (x) Gamma. All
    terms are over pairs of tokens of different halves, so that none meets itself. Permuting errors within a
    half keeps M and Gamma of both halves and breaks what ties an error to its activation.

    Args:
        activations: (N, d) inputs of the layer.
        errors: (N, K) errors at its outputs.
        group: (N,) sequence of each token; its parity is its half.
        permutations: P.
        generator: a CPU generator, draws the permutations.

    Returns:
        The gap, its null and p.

    Raises:
        FisherSketchError: shapes do not fit, or a half has no token.

    Source:
        Martens and Grosse, Optimizing Neural Networks with Kronecker-factored Approximate Curvature, ICML
        2015, Section 3.1, for the assumption.
    """
    check_samples(activations, errors, group)
    halves = [(group % 2 == half).nonzero().flatten() for half in (0, 1)]
    if min(len(rows) for rows in halves) == 0:
        raise FisherSketchError("the test needs groups of both parities: give more sequences")
    a, e = (_kernel(rows, *halves) for rows in (activations, errors))  # (n_0, n_1)
    rows_a, rows_e = (a.mean(1), a.mean(0)), (e.mean(1), e.mean(0))
    separable = float(a.mean() * e.mean())
    if separable <= 0:
        raise FisherSketchError("all errors or activations are zero: the gap is not defined")

    def squared_gap(one: torch.Tensor, two: torch.Tensor) -> float:
        joint = float((a * e[one][:, two]).mean())
        cross = float((rows_a[0] * rows_e[0][one]).mean() + (rows_a[1] * rows_e[1][two]).mean()) / 2
        return (joint - 2 * cross + separable) / separable

    gap = squared_gap(*(torch.arange(len(rows)) for rows in halves))
    null = torch.tensor(
        [
            squared_gap(*(torch.randperm(len(rows), generator=generator) for rows in halves))
            for _ in range(permutations)
        ],
        dtype=torch.float64,
    )
    return IndependenceTest(gap, null, (1 + int((null >= gap).sum())) / (1 + permutations))


def _kernel(rows: torch.Tensor, one: torch.Tensor, two: torch.Tensor) -> torch.Tensor:
    """Returns squared inner products between the halves, scaled to a mean norm of 1 against underflow."""
    rows = rows.double().cpu()
    scale = rows.square().sum(1).mean().sqrt()
    rows = rows / torch.where(scale > 0, scale, 1.0)
    return (rows[one] @ rows[two].T).square()
