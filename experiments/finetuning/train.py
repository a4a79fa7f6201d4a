"""AdamW over the windows of one source."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from experiments.draws import permutations
from experiments.finetuning.base import Tunable
from experiments.finetuning.losses import token_losses


class Diverged(Exception):
    """A loss is no longer a finite number; the message says which, in a few words."""


@dataclass(frozen=True)
class Schedule:
    """How long and how fast is trained.

    Attributes:
        learning_rate: AdamW's, the same at every step.
        weight_decay: AdamW's, decoupled.
        batch_windows: Windows a step.
        epochs: Passes over the windows.
    """

    learning_rate: float
    weight_decay: float
    batch_windows: int
    epochs: int


def train(
    tunable: Tunable,
    inputs: torch.Tensor,
    labels: torch.Tensor,
    schedule: Schedule,
    *,
    label: str,
    seed: int,
    at_once: int,
    device: torch.device,
) -> None:
    """Minimises the mean next-token loss over a source's windows, in an order drawn anew each epoch.

    The model stays in evaluation mode (no dropout), so the order and the initial weights are all that a seed
    changes. A batch larger than ``at_once`` accumulates its gradient, which is that of the whole batch.

    Args:
        tunable: At its base weights.
        inputs: The source's inputs (n, W, ...).
        labels: Token ids to predict (n, W).
        schedule: How long and how fast.
        label: Names the source in the draws.
        seed: Fine-tuning seed.
        at_once: Windows a forward pass.
        device: Where the model is.

    Raises:
        Diverged: When a batch's loss is not finite.
    """
    # Fused, a step takes a quarter of the time: reading and writing parameters and moments bounds it.
    optimizer = torch.optim.AdamW(
        tunable.parameters, lr=schedule.learning_rate, weight_decay=schedule.weight_decay, fused=True
    )
    orders = permutations(f"windows {label}", seed, schedule.epochs, len(inputs))
    batches = [b for order in orders for b in torch.from_numpy(order).split(schedule.batch_windows)]
    for step, batch in enumerate(batches, 1):
        loss = _backward(tunable, inputs[batch], labels[batch], at_once, device)
        if not torch.isfinite(loss):
            optimizer.zero_grad()
            raise Diverged(f"its training loss is {loss.item()} at step {step}")
        optimizer.step()
        optimizer.zero_grad()


def _backward(
    tunable: Tunable, inputs: torch.Tensor, labels: torch.Tensor, at_once: int, device: torch.device
) -> torch.Tensor:
    total = torch.zeros((), device=device)
    parts: Sequence = list(zip(inputs.split(at_once), labels.split(at_once), strict=True))
    for x, y in parts:
        loss = token_losses(tunable.logits, x.to(device), y.to(device)).sum() / labels.numel()
        loss.backward()
        total += loss.detach()
    return total
