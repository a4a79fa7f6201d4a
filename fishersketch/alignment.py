"""Alignments of tasks from their signatures: joint, marginals, coupling, gap, and the sketch's error."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from fishersketch.controlled import STREAMS, controlled_joint
from fishersketch.errors import FisherSketchError
from fishersketch.provenance import describe_difference
from fishersketch.self_terms import SELF_TERMS, SelfTerms
from fishersketch.signature import TaskSignature


@dataclass(frozen=True, eq=False)
class Alignment:
    r"""Pairwise alignments of T tasks; every matrix is (T, T) float64 and symmetric, its diagonal 1.

    Attributes:
        joint: S_ae, cosine of the head Fisher matrices F = E[g g^T].
        activation: S_a, cosine of M = E[a a^T].
        error: S_e, cosine of Gamma = E[e e^T].
        coupling: rho, what is left of the joint alignment when the product of the marginals is taken
            out; S_ae = S_a S_e rho.
        stderr_sketch: standard error of `joint` from the random features (0 for exact alignments). It
            says nothing of the tokens drawn.
        separability_gap: (T,) delta = ||F - M (x) Gamma|| / ||M (x) Gamma||; NaN where the split
            estimate of its square is negative, which means "not distinguishable from 0", and with
            sample_unit="sequence", where a sample has no factors a and e whose independence would make
            F = M (x) Gamma.
        squared_gap: (T,) the square of the gap, unbiased with split self terms, and then of either sign.
        self_terms: "split" or "plain".

    Cosines are never clipped: with split self terms one can exceed 1 (`above_one`). A self term that is
    not positive leaves its row and column NaN (`undefined`).
    """

    joint: torch.Tensor
    activation: torch.Tensor
    error: torch.Tensor
    coupling: torch.Tensor
    stderr_sketch: torch.Tensor
    separability_gap: torch.Tensor
    squared_gap: torch.Tensor
    self_terms: str

    @property
    def above_one(self) -> int:
        """Pairs of different tasks whose joint cosine exceeds 1."""
        return int((self.joint.triu(1) > 1).sum())

    @property
    def undefined(self) -> int:
        """Pairs of different tasks with a joint cosine or a coupling that is not defined."""
        return int((torch.isnan(self.joint) | torch.isnan(self.coupling)).triu(1).sum())


def align(signatures: Sequence[TaskSignature], self_terms: str = "split") -> Alignment:
    r"""Estimates the alignments of tasks from their signatures.

    <F_i, F_j> ~ psi_i . psi_j / m is unbiased for i != j. The elementwise products psi_a * psi_e sketch
    M (x) Gamma with the same features and share much of their noise. So the joint cosine c is corrected
    by what that of the products is off,

        S_ae = c - b (cos(psi_a * psi_e) - S_a S_e),   b of least variance,

    and the coupling is c / cos(psi_a * psi_e).

    Args:
        signatures: made under one spec and provenance, at least one.
        self_terms: "split" (halves of the groups; without the bias of samples meeting themselves) or
            "plain".

    Returns:
        The alignments, in the order given.

    Raises:
        FisherSketchError: signatures are not comparable (says in what), or split self terms are asked of
            a signature without two halves.
    """
    if not signatures:
        raise FisherSketchError("no signatures given: nothing to align")
    check_comparable(signatures)
    terms = [self_terms_of(s, f"signature {number}", self_terms) for number, s in enumerate(signatures)]
    m = signatures[0].spec.num_features
    joint, activation, error = (
        torch.stack([signature.stream(name) for signature in signatures])  # (T, m)
        for name in ("joint", "activation", "error")
    )
    separable = activation * error
    streams = {"joint": joint, "separable": separable, "activation": activation, "error": error}
    norms = {name: [getattr(term, name) for term in terms] for name in STREAMS}
    cosine = {name: cosines(streams[name] @ streams[name].T / m, norms[name]) for name in STREAMS}
    units = {name: streams[name] / _roots(norms[name])[:, None] / m**0.5 for name in STREAMS}
    # Matrix products round unevenly.
    controlled, stderr = ((x + x.T) / 2 for x in controlled_joint(units, units, cosine))
    return make_alignment(
        joint=controlled.fill_diagonal_(1.0).where(cosine["joint"].isfinite(), torch.nan),
        activation=cosine["activation"],
        error=cosine["error"],
        coupling=cosine["joint"] / torch.where(cosine["separable"] == 0, torch.nan, cosine["separable"]),
        stderr_sketch=stderr.fill_diagonal_(0.0),
        terms=terms,
        self_terms=self_terms,
        sample_unit=signatures[0].spec.sample_unit,
    )


def make_alignment(
    *,
    joint: torch.Tensor,
    activation: torch.Tensor,
    error: torch.Tensor,
    coupling: torch.Tensor,
    stderr_sketch: torch.Tensor,
    terms: Sequence[SelfTerms],
    self_terms: str,
    sample_unit: str,
) -> Alignment:
    """Returns an alignment; its gaps follow from the self terms."""
    squared = torch.tensor([t.squared_gap for t in terms], dtype=torch.float64)
    if sample_unit == "sequence":
        squared = torch.full_like(squared, torch.nan)
    return Alignment(
        joint=joint,
        activation=activation,
        error=error,
        coupling=coupling,
        stderr_sketch=stderr_sketch,
        separability_gap=torch.where(squared >= 0, squared, torch.nan).sqrt(),
        squared_gap=squared,
        self_terms=self_terms,
    )


def cosines(inner: torch.Tensor, self_terms: Sequence[float]) -> torch.Tensor:
    """Returns inner products over the roots of self terms, the diagonal 1.

    Args:
        inner: (T, T) inner products; the diagonal is not used.
        self_terms: (T,) squared norms; one that is not positive makes its row and column NaN.
    """
    squares = torch.as_tensor(self_terms, dtype=torch.float64)
    norms = torch.where(squares > 0, squares, torch.nan).sqrt()
    cosine = (inner + inner.T) / 2 / (norms[:, None] * norms[None, :])  # matrix products round unevenly
    return cosine.diagonal_scatter(norms / norms)


def _roots(self_terms: Sequence[float]) -> torch.Tensor:
    squares = torch.as_tensor(self_terms, dtype=torch.float64)
    return torch.where(squares > 0, squares, torch.nan).sqrt()


def check_comparable(signatures: Sequence[TaskSignature]) -> None:
    """Refuses signatures that were not made alike.

    Args:
        signatures: at least one.

    Raises:
        FisherSketchError: specs or provenance differ; says in what.
    """
    first = signatures[0]
    for number, signature in enumerate(signatures[1:], start=1):
        difference = first.spec.difference(signature.spec) or describe_difference(
            dict(first.provenance), dict(signature.provenance)
        )
        if difference:
            raise FisherSketchError(f"signatures 0 and {number} cannot be compared: {difference}")


def self_terms_of(signature: TaskSignature, name: str, self_terms: str) -> SelfTerms:
    """Returns the self terms of a signature.

    Args:
        signature: whose.
        name: what to call it in the message.
        self_terms: "split" or "plain".

    Returns:
        The terms.

    Raises:
        FisherSketchError: there is no such kind, or the signature lacks it.
    """
    if self_terms not in SELF_TERMS:
        raise FisherSketchError(f"self_terms={self_terms!r}: must be one of {', '.join(SELF_TERMS)}")
    if self_terms not in signature.self_terms:
        first, second = signature.num_samples
        raise FisherSketchError(
            f"{name} has {first} and {second} samples in its halves: split terms need groups "
            "of both parities; stream more sequences with their group, or ask for self_terms='plain'"
        )
    return signature.self_terms[self_terms]
