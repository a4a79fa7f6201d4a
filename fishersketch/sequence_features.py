"""Features of one sequence's summed gradient G = sum_t e_t a_t^T."""

from collections.abc import Iterator

import torch

from fishersketch.projections import Projection
from fishersketch.samples import sequence_lengths


def sequence_chunks(
    projections: tuple[Projection, Projection],
    activations: torch.Tensor,
    errors: torch.Tensor,
    group: torch.Tensor,
    dtype: torch.dtype,
    rows: int,
) -> Iterator[tuple[list[torch.Tensor], torch.Tensor]]:
    """Computes the features of one sequence after the other.

    Args:
        projections: of activations and of errors.
        activations: (N, d).
        errors: (N, K).
        group: (N,) sequence of each row; the rows of one stand together.
        dtype: float32 or float64, to compute in.
        rows: tokens that are projected at a time.

    Yields:
        The (1, m) features of each stream and the (1,) half, on the device of the errors.
    """
    numbers, lengths = sequence_lengths(group)
    for a, e, number in zip(activations.split(lengths), errors.split(lengths), numbers, strict=True):
        features = sequence_features(projections, a, e, dtype, rows)
        yield [feature[None] for feature in features], torch.tensor([number % 2], device=e.device)


def sequence_features(
    projections: tuple[Projection, Projection],
    a: torch.Tensor,
    e: torch.Tensor,
    dtype: torch.dtype,
    rows: int,
) -> list[torch.Tensor]:
    r"""Returns the joint, activation and error features of one sequence.

        joint       (x^T G w)(x'^T G w')
        activation  w^T G^T G w'  = sum_(t,s) (w.a_t)(e_t.e_s)(w'.a_s)
        error       x^T G G^T x'  = sum_(t,s) (x.e_t)(a_t.a_s)(x'.e_s)

    so that the marginals need the L x L Gram matrices of the sequence and never G itself.

    Args:
        projections: of activations, w and w', and of errors, x and x'.
        a: (L, d) activations of the sequence's tokens.
        e: (L, K) their errors.
        dtype: float32 or float64, to compute in.
        rows: tokens that are projected at a time.

    Returns:
        Three (m,) tensors.
    """
    left_a, right_a = _project(projections[0], a, dtype, rows)  # (L, m)
    left_e, right_e = _project(projections[1], e, dtype, rows)  # (L, m)
    joint = (left_a * left_e).sum(0) * (right_a * right_e).sum(0)
    activation = (left_a * (_gram(e, dtype, rows) @ right_a)).sum(0)
    error = (left_e * (_gram(a, dtype, rows) @ right_e)).sum(0)
    return [joint, activation, error]


def _project(
    projection: Projection, x: torch.Tensor, dtype: torch.dtype, rows: int
) -> tuple[torch.Tensor, torch.Tensor]:
    pairs = [projection.project(block.to(dtype)) for block in x.split(rows)]
    return torch.cat([left for left, _ in pairs]), torch.cat([right for _, right in pairs])


def _gram(x: torch.Tensor, dtype: torch.dtype, rows: int) -> torch.Tensor:
    """Returns x x^T, (L, L); a copy in another type is of two blocks of rows at most."""
    if x.dtype == dtype:
        return x @ x.T
    blocks = x.split(rows)
    return torch.cat([torch.cat([p.to(dtype) @ q.to(dtype).T for q in blocks], 1) for p in blocks])
