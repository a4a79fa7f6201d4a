"""The work of a sketch, cut as the cost experiment needs it, and samples to do it on."""

from collections.abc import Callable

import torch

from fishersketch import SketchSpec
from fishersketch.head_transform import OutputTransform
from fishersketch.projections import Projection
from fishersketch.token_features import token_chunks

SEQUENCE = 64  # tokens that share a group in the samples drawn here


def form_errors(transform: OutputTransform, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Turns raw outputs into errors as `iter_head_terms` does, in place.

    Args:
        transform: what the model applies after its head.
        logits: (N, K) raw outputs; overwritten.
        labels: (N,) classes.

    Returns:
        (N, K) errors, in the memory of the logits unless there is a soft-cap.

    Raises:
        FloatingPointError: an output is not finite.
    """
    probabilities, buffer = transform.probabilities(logits)
    if not bool(probabilities[:, :1].isfinite().all()):
        raise FloatingPointError("raw outputs are not finite")
    return transform.errors(probabilities, buffer, labels)


def random_logits(count: int, size: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns (count, size) raw outputs whose softmax is peaked, and (count,) labels."""
    generator = torch.Generator().manual_seed(0)
    logits = 3.0 * torch.randn(count, size, generator=generator)
    return logits.to(device), torch.randint(0, size, (count,), generator=generator).to(device)


def random_samples(
    count: int, activation_dim: int, error_dim: int, device: torch.device, seed: int = 0
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns (count, d) activations, (count, K) errors that sum to 0 in each row, and (count,) groups."""
    generator = torch.Generator().manual_seed(seed)
    activations = torch.randn(count, activation_dim, generator=generator).to(device)
    errors = form_errors(OutputTransform(), *random_logits(count, error_dim, device))
    return activations, errors, torch.arange(count) // max(1, min(SEQUENCE, count // 2))


def projected(projection: Projection, x: torch.Tensor, rows: int) -> Callable[[], None]:
    """Returns work: project (N, size) vectors, `rows` at a time."""

    def work() -> None:
        for start in range(0, len(x), rows):
            projection.project(x[start : start + rows])

    return work


def updated(
    spec: SketchSpec,
    projections: tuple[Projection, Projection],
    samples: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    rows: int,
) -> Callable[[], torch.Tensor]:
    """Returns work: a whole update in chunks of `rows`, both projections, their products and float64 sums.

    It returns the (2, streams, m) sums, as in the state of a `FisherSketch`.
    """
    activations, errors, group = samples

    def work() -> torch.Tensor:
        sums = torch.zeros(2, len(spec.streams), spec.num_features, dtype=torch.float64)
        chunks = token_chunks(projections, activations, errors, group, torch.float32, rows, ())
        for features, halves in chunks:
            selector = torch.stack([halves == 0, halves == 1]).to(torch.float64)
            for index, phi in enumerate(features):
                sums[:, index] += (selector @ phi.to(torch.float64)).cpu()
        return sums

    return work
