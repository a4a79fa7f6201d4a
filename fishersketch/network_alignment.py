"""Fisher alignment of whole networks, and what its approximations by blocks leave out."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from fishersketch.alignment import cosines
from fishersketch.errors import FisherSketchError
from fishersketch.self_terms import SELF_TERMS


@dataclass(frozen=True, eq=False)
class NetworkAlignment:
    r"""Pairwise alignments of T tasks over B blocks of parameters, all float64.

    The Fisher matrix F = E[g g^T] of all parameters splits into its diagonal blocks and the rest, which
    share no entry: F = D + R, <D, R> = 0.

    Attributes:
        names: of the blocks.
        network: (T, T) cosine of the whole F.
        block_diagonal: (T, T) cosine of D.
        blocks: (B, T, T) cosine of each diagonal block.
        profiles: (T, B) norms of the diagonal blocks, scaled to a unit vector a task.
        profile_cosine: (T, T) cosine of the tasks' profiles.
        discrepancy: (T, T) off-diagonal discrepancy 1 - <D_i, D_j> / <F_i, F_j>: the share of the inner
            product that lies between blocks and that the block-diagonal form drops. On the diagonal, the
            share of a task's squared norm.
        self_terms: "split" or "plain".

    With S_b the cosine of block b, p the profiles and delta_i = discrepancy[i, i],

        block_diagonal = sum_b p_ib p_jb S_b, so it lies between min_b S_b and max_b S_b times profile_cosine;
        network = sqrt((1 - delta_i)(1 - delta_j)) block_diagonal + sqrt(delta_i delta_j) S_R,

    S_R being the cosine of the rests R. From |S_R| <= 1 follow `lower` and `upper`, which hold exactly for
    plain self terms and up to the noise of the norms for split ones.
    """

    names: tuple[str, ...]
    network: torch.Tensor
    block_diagonal: torch.Tensor
    blocks: torch.Tensor
    profiles: torch.Tensor
    profile_cosine: torch.Tensor
    discrepancy: torch.Tensor
    self_terms: str

    @property
    def lower(self) -> torch.Tensor:
        """(T, T) least value of `network` that `block_diagonal` and the discrepancies allow."""
        return self._shrunk() - self._rest()

    @property
    def upper(self) -> torch.Tensor:
        """(T, T) greatest value likewise."""
        return self._shrunk() + self._rest()

    def _shrunk(self) -> torch.Tensor:
        kept = (1 - self.discrepancy.diagonal()).clamp(min=0).sqrt()
        return kept[:, None] * kept * self.block_diagonal

    def _rest(self) -> torch.Tensor:
        rest = self.discrepancy.diagonal().clamp(min=0).sqrt()
        return rest[:, None] * rest


def network_alignment(
    kernels: Mapping[str, torch.Tensor], task: torch.Tensor, half: torch.Tensor, self_terms: str = "split"
) -> NetworkAlignment:
    r"""Computes the alignments from the kernels k_b(s, t) = g_b(s) . g_b(t) of S samples.

    <F_i, F_j> = E E (sum_b k_b)^2 and <D_i, D_j> = sum_b E E k_b^2.

    Args:
        kernels: (S, S) by block, as `gradient_kernels` gives them; sums of those are coarser blocks.
        task: (S,) number of each sample's task, 0 to T - 1.
        half: (S,) 0 or 1, for split self terms.
        self_terms: "split" or "plain" (the matrices of these samples, which is what the bounds are about).

    Returns:
        The alignments.

    Raises:
        FisherSketchError: shapes do not fit, or a task lacks samples.
    """
    if self_terms not in SELF_TERMS:
        raise FisherSketchError(f"self_terms={self_terms!r}: must be one of {', '.join(SELF_TERMS)}")
    if not kernels:
        raise FisherSketchError("no kernels given: nothing to align")
    for name, kernel in kernels.items():
        if kernel.shape != (len(task), len(task)):
            raise FisherSketchError(
                f"kernel {name} has shape {tuple(kernel.shape)}: expected ({len(task)}, {len(task)})"
            )
    weights = _weights(task, half, self_terms)
    inner = torch.stack([_inner(kernel, weights) for kernel in kernels.values()])  # (B, T, T)
    whole = _inner(torch.stack(list(kernels.values())).sum(0), weights)
    summed = inner.sum(0)
    norms = inner.diagonal(dim1=1, dim2=2).clamp(min=0).sqrt().T  # (T, B)
    profiles = norms / norms.norm(dim=1, keepdim=True)
    return NetworkAlignment(
        names=tuple(kernels),
        network=_cosine(whole),
        block_diagonal=_cosine(summed),
        blocks=torch.stack([_cosine(block) for block in inner]),
        profiles=profiles,
        profile_cosine=profiles @ profiles.T,
        discrepancy=1 - summed / whole,
        self_terms=self_terms,
    )


def _weights(task: torch.Tensor, half: torch.Tensor, self_terms: str) -> tuple[torch.Tensor, ...]:
    """Returns (T, S) means over a task's samples, over its first half and over its second.

    Raises:
        FisherSketchError: a task has no samples in a half.
    """
    one_hot = torch.nn.functional.one_hot(task).T.to(torch.float64)
    parts: tuple[torch.Tensor, ...] = (one_hot,)
    if self_terms == "split":
        parts = (one_hot, one_hot * (half == 0), one_hot * (half == 1))
    for rows in parts:
        if bool((rows.sum(1) == 0).any()):
            raise FisherSketchError(
                f"task {int((rows.sum(1) == 0).nonzero()[0])} has no samples in a half: give more, or "
                "self_terms='plain'"
            )
    return tuple(rows / rows.sum(1, keepdim=True) for rows in parts)


def _inner(kernel: torch.Tensor, weights: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """Returns (T, T) mean squared kernels; the diagonal over pairs of different halves where there are."""
    squares = kernel.double().square()
    inner = weights[0] @ squares @ weights[0].T
    inner = (inner + inner.T) / 2
    if len(weights) == 3:
        split = ((weights[1] @ squares) * weights[2]).sum(1)
        inner = inner.diagonal_scatter(split)
    return inner


def _cosine(inner: torch.Tensor) -> torch.Tensor:
    return cosines(inner, inner.diagonal().tolist())
