"""Activations and errors of any model's output head, in blocks of bounded size."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from fishersketch.errors import FisherSketchError
from fishersketch.head_batch import HeadBatch, prepare_batch
from fishersketch.head_capture import output_head

__all__ = ["HeadTerms", "head_terms", "iter_head_terms", "output_head"]

CHUNK_BYTES = 1 << 27
HEAD_TERMS_BYTES = 1 << 33


@dataclass(frozen=True)
class HeadTerms:
    """Activations and errors of the kept positions: the head's gradient at one of them is g = e a^T.

    Args:
        activations: a, the head's inputs, shape (N, d), float32 (float64 of a float64 head).
        errors: e = dl/dz at the head's raw output z, shape (N, K), same dtype; l in nats.
        group: the sequence that each position is in, shape (N,), int64.
        labels: y, the classes that the errors hold: those given, or those drawn, shape (N,), int64.
    """

    activations: Tensor
    errors: Tensor
    group: Tensor
    labels: Tensor


def head_terms(
    model: nn.Module,
    inputs: Mapping[str, Any],
    labels: Tensor,
    label_mode: str = "data",
    generator: torch.Generator | None = None,
    *,
    group: Tensor | None = None,
) -> HeadTerms:
    """Take the head's activations and errors of a batch, all at once.

    `iter_head_terms` says what they are, and streams them in bounded memory.

    Args:
        model: a causal language model or an image classifier with a linear head, in eval mode.
        inputs: the model's keyword arguments, without labels.
        labels: token ids (B, T), shifted here, or classes (B,); -100 is skipped.
        label_mode: "data" or "model".
        generator: a CPU generator, for "model" only.
        group: the id of each row's (first) sequence, shape (B,).

    Returns:
        All N kept positions; N = 0 is possible.

    Raises:
        FisherSketchError: as `iter_head_terms`, or if the errors would take more than 8 GiB.

    >>> _ = torch.manual_seed(0)
    >>> model = nn.Sequential()
    >>> model.add_module("body", nn.Linear(3, 4)); model.add_module("head", nn.Linear(4, 5))
    >>> terms = head_terms(model.eval(), {"input": torch.randn(2, 3)}, torch.tensor([1, 4]))
    >>> terms.activations.shape, terms.errors.shape, terms.group
    (torch.Size([2, 4]), torch.Size([2, 5]), tensor([0, 1]))
    >>> bool((terms.errors.sum(dim=1).abs() < 1e-6).all()), terms.labels
    (True, tensor([1, 4]))
    """
    batch = prepare_batch(model, inputs, labels, label_mode, generator, group)
    count = len(batch.activations)
    if count * batch.row_bytes > HEAD_TERMS_BYTES:
        raise FisherSketchError(
            f"the errors of {count} positions over {batch.head.out_features} outputs would take "
            f"{count * batch.row_bytes / 2**30:.1f} GiB: stream them with iter_head_terms"
        )
    errors = batch.activations.new_empty(count, batch.head.out_features)
    drawn = torch.empty_like(batch.positions.target)
    for rows in batch.chunks(max(CHUNK_BYTES, batch.row_bytes)):
        _, drawn[rows] = batch.errors(rows, out=errors[rows])
    return HeadTerms(batch.activations, errors, batch.positions.group, drawn)


def iter_head_terms(
    model: nn.Module,
    inputs: Mapping[str, Any],
    labels: Tensor,
    label_mode: str = "data",
    generator: torch.Generator | None = None,
    *,
    group: Tensor | None = None,
    chunk_bytes: int = CHUNK_BYTES,
) -> Iterator[HeadTerms]:
    """Stream the head's activations and errors of a batch.

    One forward pass without gradients stops at the head, so that the batch's logits never exist. The raw
    outputs z = W a + b are then formed from the captured inputs, a few kept positions at a time, in float32
    or better whatever the model's dtype, and turned into e = dl/dz in place. What the model applies after
    its head (a scale, a tanh soft-cap) is measured in the same pass and carried in e; anything else is
    refused.

    For labels (B, T), position t predicts labels[b, t + 1]. Skipped are -100, padding (`attention_mask` 0)
    and the step between packed sequences (`position_ids` that do not grow). K counts every row of the head.

    Args:
        model: a causal language model or an image classifier with a linear head, in eval mode.
        inputs: the model's keyword arguments, without labels.
        labels: token ids (B, T), shifted here, or classes (B,).
        label_mode: "data" takes the labels given (empirical Fisher); "model" draws y ~ softmax of the logits
            at the same positions (true Fisher), by one uniform a position whatever the chunk size.
        generator: a CPU generator, for "model" only.
        group: the id of each row's sequence, shape (B,), integer; by default sequences count from 0. Further
            packed sequences of a row take the ids that follow, so halves by parity alternate along the row.
        chunk_bytes: bound of any one (n, K) block in bytes. At most two are alive here at once (one without a
            soft-cap, another for "model"), beside those the caller keeps; half-precision weights are upcast
            32 MiB at a time on the CPU.

    Returns:
        Blocks of kept positions in reading order, which share no memory with each other. A block may end
        inside a sequence; there is none if nothing is kept.

    Raises:
        FisherSketchError: if the model is in training mode, its head is not linear or is followed by an
            unknown transform, labels do not fit, or activations or outputs are not finite.
    """
    batch = prepare_batch(model, inputs, labels, label_mode, generator, group)
    if chunk_bytes < batch.row_bytes:
        raise FisherSketchError(f"chunk_bytes={chunk_bytes}: one position takes {batch.row_bytes} bytes")
    return (_terms(batch, rows) for rows in batch.chunks(chunk_bytes))


def _terms(batch: HeadBatch, rows: slice) -> HeadTerms:
    errors, drawn = batch.errors(rows)
    return HeadTerms(batch.activations[rows], errors, batch.positions.group[rows], drawn)
