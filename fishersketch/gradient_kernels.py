"""Inner products of samples' gradients, parameter by parameter: what exact network alignments follow from."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from fishersketch.errors import FisherSketchError
from fishersketch.layers import summed_loss
from fishersketch.samples import all_finite

Sample = tuple[Mapping[str, Any], Tensor]


@dataclass(frozen=True)
class _Piece:
    """Entries start to stop of a parameter."""

    name: str
    start: int
    stop: int


def gradient_kernels(
    model: nn.Module,
    samples: Sequence[Sample],
    parameters: Mapping[str, Tensor],
    chunk_bytes: int = 1 << 32,
    progress: Callable[[int, int], object] | None = None,
) -> dict[str, Tensor]:
    r"""Computes k_b(s, t) = g_b(s) . g_b(t) for every parameter b and all pairs of S samples.

    g_b(s) is the gradient of the sample's summed loss by autograd, the sequence being one sample. Gradients
    of one chunk of entries are held at a time, S x chunk numbers, and every chunk costs one pass over the
    samples: a model of P parameters takes about S P / (chunk_bytes / size of a number) passes.

    Args:
        model: a causal language model or an image classifier, in evaluation mode.
        samples: (inputs, labels) of one row each.
        parameters: tensors of the model that require gradients, by name, none a view of another: a parameter
            that is used in two places counts once, by the sum of both uses.
        chunk_bytes: bound of the gradients held at a time.
        progress: called with (passes of a sample done, in all).

    Returns:
        By parameter, an (S, S) float64 matrix.

    Raises:
        FisherSketchError: there are no samples, a parameter takes no part, or a gradient is not finite.
    """
    if not samples:
        raise FisherSketchError("no samples given: nothing to compare")
    size = next(iter(parameters.values())).element_size()
    width = max(1, chunk_bytes // (len(samples) * size))
    chunks = list(_chunks({name: tensor.numel() for name, tensor in parameters.items()}, width))
    kernels = {name: torch.zeros(len(samples), len(samples), dtype=torch.float64) for name in parameters}
    done, total = 0, len(chunks) * len(samples)
    for pieces in chunks:
        names = list(dict.fromkeys(piece.name for piece in pieces))
        held = [parameters[piece.name].new_empty(len(samples), piece.stop - piece.start) for piece in pieces]
        for row, (inputs, labels) in enumerate(samples):
            with torch.enable_grad():
                loss = summed_loss(model, inputs, labels)
            found = torch.autograd.grad(loss, [parameters[name] for name in names], allow_unused=True)
            gradients = dict(zip(names, found, strict=True))
            for piece, rows in zip(pieces, held, strict=True):
                gradient = gradients[piece.name]
                if gradient is None:
                    raise FisherSketchError(f"parameter {piece.name} takes no part in the loss: leave it out")
                rows[row] = gradient.flatten()[piece.start : piece.stop]
            done += 1
            if progress is not None:
                progress(done, total)
        for piece, rows in zip(pieces, held, strict=True):
            kernel = (rows @ rows.T).double().cpu()
            if not all_finite(kernel):
                raise FisherSketchError(f"parameter {piece.name}: gradients are not finite")
            kernels[piece.name] += (kernel + kernel.T) / 2
    return kernels


def _chunks(sizes: Mapping[str, int], width: int) -> Iterator[list[_Piece]]:
    """Yields pieces of the parameters, in order, `width` entries at a time."""
    pieces: list[_Piece] = []
    room = width
    for name, size in sizes.items():
        start = 0
        while start < size:
            stop = min(size, start + room)
            pieces.append(_Piece(name, start, stop))
            room -= stop - start
            start = stop
            if room == 0:
                yield pieces
                pieces, room = [], width
    if pieces:
        yield pieces
