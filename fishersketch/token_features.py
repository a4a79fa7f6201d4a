"""Features of single tokens, each a sample of its own with the gradient g = a (x) e."""

from collections.abc import Iterator

import torch

from fishersketch.projections import Projection


def token_chunks(
    projections: tuple[Projection, Projection],
    activations: torch.Tensor,
    errors: torch.Tensor,
    group: torch.Tensor | None,
    dtype: torch.dtype,
    rows: int,
    extra_streams: tuple[str, ...],
) -> Iterator[tuple[list[torch.Tensor], torch.Tensor]]:
    """Cuts samples into chunks and computes their features.

    Args:
        projections: of activations and of errors.
        activations: (N, d).
        errors: (N, K).
        group: (N,) sequence of each row, or None.
        dtype: float32 or float64, to compute in.
        rows: rows of a chunk at most, B.
        extra_streams: as in `token_features`.

    Yields:
        The (B, m) features of each stream and the (B,) halves, on the device of the errors.
    """
    halves = torch.zeros(len(errors), dtype=torch.int64) if group is None else group % 2
    halves = halves.to(errors.device)
    for start in range(0, len(errors), rows):
        chunk = slice(start, start + rows)
        a, e = activations[chunk].to(dtype), errors[chunk].to(dtype)
        yield token_features(projections, a, e, extra_streams), halves[chunk]


def token_features(
    projections: tuple[Projection, Projection],
    a: torch.Tensor,
    e: torch.Tensor,
    extra_streams: tuple[str, ...],
) -> list[torch.Tensor]:
    r"""Returns the features of every stream.

        joint                (w.a)(w'.a)(x.e)(x'.e)
        activation           (w.a)(w'.a)
        error                (x.e)(x'.e)
        mean_gradient        (w.a)(x.e)
        unit_joint           joint / (|a|^2 |e|^2), 0 where a or e is
        weighted_activation  |e|^2 (w.a)(w'.a)

    Args:
        projections: of activations, w and w', and of errors, x and x'.
        a: (B, d) activations, float32 or float64.
        e: (B, K) errors, of the same type.
        extra_streams: names of the last three, in the order wanted.

    Returns:
        (B, m) tensors: joint, activation, error, then the extra streams.
    """
    left_a, right_a = projections[0].project(a)
    left_e, right_e = projections[1].project(e)
    phi_a, phi_e = left_a * right_a, left_e * right_e
    features = [phi_a * phi_e, phi_a, phi_e]
    for stream in extra_streams:
        if stream == "mean_gradient":
            features.append(left_a * left_e)
        elif stream == "unit_joint":
            features.append(_unit(phi_a, a) * _unit(phi_e, e))
        else:
            features.append(phi_a * e.square().sum(1, keepdim=True))
    return features


def _unit(phi: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Returns the features of x / |x|."""
    squares = x.square().sum(1)  # (B,)
    return phi / torch.where(squares > 0, squares, 1.0)[:, None]
