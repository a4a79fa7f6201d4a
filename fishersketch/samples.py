"""What a caller gives as samples: rows of activations and errors, and the sequence of each row."""

from typing import Any

import torch

from fishersketch.errors import FisherSketchError


def check_samples(activations: Any, errors: Any, group: Any, where: str = "") -> None:
    """Refuses what is no set of samples; sizes are the caller's to check.

    Args:
        activations: should be (N, d), of a real floating type.
        errors: should be (N, K), likewise, on the same device.
        group: should be (N,) whole numbers from 0, on any device, or None.
        where: what the message begins with.

    Raises:
        FisherSketchError: says what is wrong with which.
    """
    for name, rows in (("activations", activations), ("errors", errors)):
        _check_tensor(f"{where}{name}", rows)
        if not rows.is_floating_point():
            raise FisherSketchError(f"{where}{name} have type {rows.dtype}: expected real floating numbers")
        if rows.dim() != 2 or rows.shape[1] == 0:
            raise FisherSketchError(f"{where}{name} have shape {tuple(rows.shape)}: expected a row a sample")
    if len(activations) != len(errors):
        raise FisherSketchError(
            f"{where}{len(activations)} activations but {len(errors)} errors: need as many of each"
        )
    if activations.device != errors.device:
        raise FisherSketchError(
            f"{where}activations are on {activations.device} and errors on {errors.device}: move one"
        )
    if group is not None:
        _check_group(f"{where}group", group, len(errors))


def working_dtype(*tensors: torch.Tensor) -> torch.dtype:
    """Returns the type to compute in: float64 where any of the tensors is, else float32."""
    return torch.float64 if any(x.dtype == torch.float64 for x in tensors) else torch.float32


def all_finite(x: torch.Tensor) -> bool:
    """Returns whether x holds neither NaN nor infinity, without a copy of it."""
    return bool(torch.isfinite(x.detach().sum(dtype=torch.float64)))


def sequence_lengths(group: torch.Tensor, where: str = "") -> tuple[list[int], list[int]]:
    """Returns the number and the length of each sequence, in order.

    Args:
        group: (N,) sequence of each row.
        where: what the message begins with.

    Returns:
        Two lists with one entry a sequence.

    Raises:
        FisherSketchError: the rows of a sequence stand apart.
    """
    numbers, lengths = torch.unique_consecutive(group, return_counts=True)
    if len(numbers.unique()) != len(numbers):
        raise FisherSketchError(f"{where}group: the rows of one sequence must stand together")
    return numbers.tolist(), lengths.tolist()


def _check_tensor(name: str, value: Any) -> None:
    if not isinstance(value, torch.Tensor):
        kind = f"{type(value).__module__}.{type(value).__name__}".removeprefix("builtins.")
        raise FisherSketchError(f"{name}: expected a torch.Tensor, not {kind}; use torch.as_tensor")


def _check_group(name: str, group: Any, count: int) -> None:
    _check_tensor(name, group)
    if group.is_floating_point() or group.is_complex() or group.dtype == torch.bool:
        raise FisherSketchError(f"{name} has type {group.dtype}: expected whole numbers, one a sequence")
    if group.shape != (count,):
        raise FisherSketchError(f"{name} has shape {tuple(group.shape)}: expected ({count},)")
    if count and int(group.min()) < 0:
        raise FisherSketchError(f"{name} holds {int(group.min())}: drop ignored rows, and number from 0")
