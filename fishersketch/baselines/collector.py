"""What a streaming baseline is: a collector that one pass over a task's chunks feeds."""

from typing import Protocol, TypeVar

import torch

from fishersketch.baselines.checks import as_labels
from fishersketch.errors import FisherSketchError

SummaryT_co = TypeVar("SummaryT_co", covariant=True)


class Collector(Protocol[SummaryT_co]):
    """Takes a task's chunks in one pass and gives a summary that tasks are compared by.

    Every collector has the same `update`, so one loop over the chunks of a task feeds all of them.
    """

    def update(self, activations: torch.Tensor, errors: torch.Tensor, labels: torch.Tensor) -> None:
        """Take one chunk of samples.

        Args:
            activations: Head inputs (B, d).
            errors: Derivatives of the loss by the head's raw output (B, K), in nats.
            labels: Target classes (B,), whole numbers from 0 to K - 1.
        """

    def summary(self) -> SummaryT_co:
        """Return what the chunks taken so far amount to.

        Returns:
            The summary, which later updates do not change.
        """


def check_chunk(activations: torch.Tensor, errors: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Check that a chunk's parts belong together.

    Args:
        activations: Head inputs (B, d).
        errors: Derivatives of the loss by the head's raw output (B, K).
        labels: Target classes (B,).

    Returns:
        The labels (B,), int64 on the CPU.

    Raises:
        FisherSketchError: A shape does not fit, or a label is outside 0 to K - 1.
    """
    if activations.ndim != 2:
        raise FisherSketchError(
            f"activations has shape {tuple(activations.shape)}: give (samples, dimensions)"
        )
    if errors.ndim != 2 or len(errors) != len(activations):
        raise FisherSketchError(
            f"errors has shape {tuple(errors.shape)}: give ({len(activations)}, classes) as in activations"
        )
    labels = as_labels("labels", labels, len(activations))
    if len(labels) and int(labels.max()) >= errors.shape[1]:
        raise FisherSketchError(
            f"labels holds {int(labels.max())}, and errors has {errors.shape[1]} classes only"
        )
    return labels
