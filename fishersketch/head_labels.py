"""Which positions of a batch are predicted, their labels, and the sequence each belongs to."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fishersketch.errors import FisherSketchError

IGNORED_LABEL = -100
_PACKING_KEYS = ("cu_seq_lens_q", "cu_seq_lens_k", "cu_seqlens", "seq_idx")


@dataclass(frozen=True)
class Positions:
    """The kept positions of a batch, in reading order.

    Args:
        index: flat index into the labels' shape (B, T) or (B,), shape (N,), int64.
        target: the label that each position predicts, shape (N,), int64.
        group: the id of the sequence that each position is in, shape (N,), int64.
        shape: the labels' shape.
    """

    index: Tensor
    target: Tensor
    group: Tensor
    shape: torch.Size

    def describe(self, n: int) -> str:
        """Say where a kept position sits in the batch.

        Args:
            n: which of the N.

        Returns:
            Its row and, in a text, its place.
        """
        place = [int(index) for index in torch.unravel_index(self.index[n].cpu(), self.shape)]
        return f"batch row {place[0]}" + "".join(f", position {index}" for index in place[1:])

    def to(self, device: torch.device) -> "Positions":
        """Move to a device.

        Args:
            device: where.

        Returns:
            The same positions there.
        """
        return Positions(self.index.to(device), self.target.to(device), self.group.to(device), self.shape)


def predicted_positions(
    labels: Tensor, inputs: Mapping[str, Any], num_outputs: int, group: Tensor | None = None
) -> Positions:
    """Select what is predicted, by the conventions of the transformers library.

    For labels (B, T), labels[b, t] is the class of token t and position t predicts labels[b, t + 1]. Skipped
    are a label of -100, a token whose `attention_mask` is 0 on either side of the prediction, and the step
    across the border of two packed sequences, which begin where `position_ids` do not grow. Labels (B,) are
    the classes of an image classifier: no shift, only -100 is skipped.

    Args:
        labels: shape (B, T) or (B,), integer.
        inputs: the model's keyword arguments; `attention_mask` (B, T) and `position_ids` (B, T) are read.
        num_outputs: K.
        group: the id of each row's first sequence, shape (B,), integer; the k-th packed sequence of row b
            gets group[b] + k, so that ids in a row alternate in parity. By default the sequences of the batch
            are numbered from 0 in reading order.

    Returns:
        The kept positions, on the CPU.

    Raises:
        FisherSketchError: if shapes do not fit, a label is outside [0, K), or ids of packed sequences meet.
    """
    labels = _integers("labels", labels)
    if labels.dim() not in (1, 2):
        raise FisherSketchError(
            f"labels have shape {tuple(labels.shape)}: give (B, T) token ids or (B,) classes"
        )
    group = _first_groups(group, len(labels))
    if labels.dim() == 1:
        keep = labels != IGNORED_LABEL
        target, sequence = labels, torch.arange(len(labels)) if group is None else group
    else:
        real = _attention_mask(labels, inputs)
        border = _sequence_starts(labels, inputs, real)
        keep = torch.zeros_like(real)
        keep[:, :-1] = (labels[:, 1:] != IGNORED_LABEL) & real[:, :-1] & real[:, 1:] & ~border[:, 1:]
        target = labels.roll(-1, dims=1)
        sequence = _sequence_ids(border, group)
    index = keep.flatten().nonzero().flatten()
    positions = Positions(index, target.flatten()[index], sequence.flatten()[index], labels.shape)
    outside = ((positions.target < 0) | (positions.target >= num_outputs)).nonzero().flatten()
    if len(outside):
        n = int(outside[0])
        raise FisherSketchError(
            f"label {int(positions.target[n])} predicted at {positions.describe(n)} is outside "
            f"[0, {num_outputs}), the head's outputs; mark positions to skip with {IGNORED_LABEL}"
        )
    return positions


def draw_labels(probabilities: Tensor, uniforms: Tensor, block_bytes: int) -> Tensor:
    """Draw y ~ p by the inverse of the cumulative distribution, in float64.

    Args:
        probabilities: p, shape (n, K).
        uniforms: one number in [0, 1) a row, shape (n,), float64: the draw depends on nothing else.
        block_bytes: bound of the cumulative sums in memory; at least one row is held.

    Returns:
        y, shape (n,), int64.

    >>> p = torch.tensor([[0.25, 0.0, 0.75]]).repeat(3, 1)
    >>> draw_labels(p, torch.tensor([0.1, 0.25, 0.9], dtype=torch.float64), block_bytes=24).tolist()
    [0, 2, 2]
    """
    num_outputs = probabilities.shape[1]
    rows = max(1, block_bytes // (8 * num_outputs))
    drawn = []
    for block, level in zip(probabilities.split(rows), uniforms.split(rows), strict=True):
        cumulative = block.cumsum(dim=1, dtype=torch.float64)
        level = level.unsqueeze(1) * cumulative[:, -1:]  # float32 softmax sums to 1 only within rounding
        drawn.append(torch.searchsorted(cumulative, level, right=True).squeeze(1))
    return torch.cat(drawn).clamp_(max=num_outputs - 1)


def _integers(name: str, values: Any) -> Tensor:
    tensor = torch.as_tensor(values).detach().cpu()
    if tensor.is_floating_point() or tensor.is_complex():
        raise FisherSketchError(f"{name} are {tensor.dtype}: give integers")
    return tensor.to(torch.int64)


def _first_groups(group: Any, batch: int) -> Tensor | None:
    if group is None:
        return None
    group = _integers("group ids", group)
    if group.shape != (batch,):
        raise FisherSketchError(
            f"group has shape {tuple(group.shape)}: give one id a row of the batch, ({batch},)"
        )
    return group


# Which tokens are no padding, shape (B, T), bool.
def _attention_mask(labels: Tensor, inputs: Mapping[str, Any]) -> Tensor:
    mask = inputs.get("attention_mask")
    if mask is None:
        return torch.ones_like(labels, dtype=torch.bool)
    if not isinstance(mask, Tensor) or mask.shape != labels.shape:
        seen = tuple(mask.shape) if isinstance(mask, Tensor) else type(mask).__name__
        raise FisherSketchError(f"attention_mask is {seen}, labels are {tuple(labels.shape)}: give (B, T)")
    return mask.detach().cpu() != 0


# Where a further sequence begins in a row, shape (B, T), bool; never in padding.
def _sequence_starts(labels: Tensor, inputs: Mapping[str, Any], real: Tensor) -> Tensor:
    ids = inputs.get("position_ids")
    if ids is None:
        packing = [key for key in _PACKING_KEYS if inputs.get(key) is not None]
        if packing:
            raise FisherSketchError(f"{packing[0]} without position_ids, which mark where sequences begin")
        return torch.zeros_like(real)
    ids = _integers("position_ids", ids)
    if ids.shape not in {labels.shape, labels.shape[1:], (1, labels.shape[1])}:
        seen = tuple(ids.shape)
        raise FisherSketchError(f"position_ids are {seen}, labels are {tuple(labels.shape)}: give (B, T)")
    ids = ids.expand(labels.shape)
    time = torch.arange(labels.shape[1]).expand(labels.shape)
    last_real = torch.where(real, time, -1).cummax(dim=1).values
    before = torch.cat([torch.full_like(last_real[:, :1], -1), last_real[:, :-1]], dim=1)
    grows = ids > ids.gather(1, before.clamp(min=0))
    return real & (before >= 0) & ~grows


# The id of the sequence that each token is in, shape (B, T).
def _sequence_ids(border: Tensor, group: Tensor | None) -> Tensor:
    within = border.cumsum(dim=1)
    count = border.sum(dim=1) + 1
    if group is None:
        return (count.cumsum(dim=0) - count).unsqueeze(1) + within
    order = group.argsort(stable=True)
    first, length = group[order], count[order]
    alike = (first[:-1] == first[1:]) & (length[:-1] == 1) & (length[1:] == 1)
    meets = (first[:-1] + length[:-1] > first[1:]) & ~alike
    if bool(meets.any()):
        n = int(meets.nonzero()[0])
        raise FisherSketchError(
            f"group {int(first[n])} heads a row of {int(length[n])} packed sequences, whose ids meet group "
            f"{int(first[n + 1])} of another row: leave room for one id a packed sequence"
        )
    return group.unsqueeze(1) + within
