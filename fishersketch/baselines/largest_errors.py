"""Keeps a task's activations and the largest errors of each sample, from which head gradients follow."""

from dataclasses import dataclass

import torch

from fishersketch.baselines.checks import UndefinedSimilarityError, check_finite
from fishersketch.baselines.collector import check_chunk
from fishersketch.errors import FisherSketchError

# Classes searched together: the r groups with the largest maxima hold the r largest values.
GROUP_CLASSES = 64


@dataclass(frozen=True)
class ErrorTerms:
    """A task's activations and, for each sample, its r largest errors, kept class by class.

    Attributes:
        activations: Head inputs (n, d), float32 (float64 where the chunks were).
        classes: Class of each error kept (n r,), never falling, int32.
        samples: Sample of each error kept (n r,), int32.
        errors: The errors kept (n r,), in the activations' type.
        left_out_norm: Norm of each sample's errors not kept (n,), float64; 0 where all K were.
        left_out_max: A bound on the absolute value of each of them (n,), float64.
        num_classes: K.
    """

    activations: torch.Tensor
    classes: torch.Tensor
    samples: torch.Tensor
    errors: torch.Tensor
    left_out_norm: torch.Tensor
    left_out_max: torch.Tensor
    num_classes: int


class LargestErrors:
    """Collects activations and the r largest errors of each sample: d + 3 r numbers a sample, not K.

    A mean gradient or a diagonal Fisher of the head has d K entries (28 million for d = 576, K = 49,152), too
    many to hold for a hundred tasks. Softmax errors are concentrated, so the r largest carry nearly all of
    their squares; what the rest can add is bounded by `left_out_norm` and `left_out_max`. With r >= K nothing
    is left out.

    Args:
        num_kept: r, at least 1.

    Raises:
        FisherSketchError: `num_kept` is below 1.

    Examples:
        >>> import torch
        >>> collector = LargestErrors(num_kept=2)
        >>> collector.update(torch.ones(1, 3), torch.tensor([[0.1, -0.9, 0.2, 0.6]]), torch.tensor([1]))
        >>> collector.summary().classes, collector.summary().errors
        (tensor([1, 3], dtype=torch.int32), tensor([-0.9000,  0.6000]))
    """

    def __init__(self, num_kept: int = 128) -> None:
        if num_kept < 1:
            raise FisherSketchError(f"num_kept={num_kept}: keep at least 1 error a sample")
        self.num_kept = num_kept
        self._activations: list[torch.Tensor] = []  # (B, d)
        self._classes: list[torch.Tensor] = []  # (B, r)
        self._errors: list[torch.Tensor] = []  # (B, r)
        self._left_out_norm: list[torch.Tensor] = []  # (B,)
        self._left_out_max: list[torch.Tensor] = []  # (B,)
        self._num_classes = 0

    def update(self, activations: torch.Tensor, errors: torch.Tensor, labels: torch.Tensor) -> None:
        """Take one chunk.

        Args:
            activations: Head inputs (B, d).
            errors: Errors (B, K), in nats.
            labels: Target classes (B,), not used: the errors hold them.

        Raises:
            FisherSketchError: The parts do not belong together, a value is not finite, or d or K changed.
        """
        check_chunk(activations, errors, labels)
        check_finite("activations", activations)
        if self._activations and (activations.shape[1], errors.shape[1]) != self._dimensions():
            raise FisherSketchError(
                f"a chunk has {activations.shape[1]} dimensions and {errors.shape[1]} classes, and the "
                f"first {self._dimensions()[0]} and {self._dimensions()[1]}"
            )
        if len(activations) == 0:
            return
        errors = errors.detach()
        errors = errors if errors.dtype == torch.float64 else errors.float()
        classes, kept = _largest(errors, self.num_kept)
        if errors.shape[1] > self.num_kept:
            rest = errors.scatter(1, classes, 0.0)
            left_out_norm, left_out_max = rest.norm(dim=1), kept.abs().amin(1)
        else:
            left_out_norm = left_out_max = torch.zeros(len(errors))
        stored = torch.float64 if torch.float64 in (activations.dtype, errors.dtype) else torch.float32
        self._activations.append(activations.detach().to("cpu", stored, copy=True))
        self._classes.append(classes.to("cpu", torch.int32))
        self._errors.append(kept.to("cpu", stored))
        self._left_out_norm.append(left_out_norm.to("cpu", torch.float64))
        self._left_out_max.append(left_out_max.to("cpu", torch.float64))
        self._num_classes = errors.shape[1]

    def summary(self) -> ErrorTerms:
        """Return what was kept so far, ordered by class.

        Returns:
            The activations and the largest errors.

        Raises:
            UndefinedSimilarityError: No sample was given.
        """
        if not self._activations:
            raise UndefinedSimilarityError("no sample was given: a task needs at least 1")
        classes = torch.cat(self._classes)  # (n, r)
        by_class = torch.argsort(classes.flatten(), stable=True)
        return ErrorTerms(
            activations=torch.cat(self._activations),
            classes=classes.flatten()[by_class],
            samples=(by_class // classes.shape[1]).int(),
            errors=torch.cat(self._errors).flatten()[by_class],
            left_out_norm=torch.cat(self._left_out_norm),
            left_out_max=torch.cat(self._left_out_max),
            num_classes=self._num_classes,
        )

    def _dimensions(self) -> tuple[int, int]:
        """Return d and K of the chunks taken."""
        return self._activations[0].shape[1], self._num_classes


def _largest(errors: torch.Tensor, num_kept: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return classes and values, (B, r) each, of the errors with the r largest absolute values.

    At vocabulary scale the search goes through the maxima of groups first: each of the r largest lies in one
    of the r groups with the largest maxima, and this takes a fifth of the time of one selection among all.
    """
    batch, num_classes = errors.shape
    num_kept = min(num_kept, num_classes)
    num_groups = num_classes // GROUP_CLASSES
    if num_groups <= num_kept:
        check_finite("errors", errors)
        classes = errors.abs().topk(num_kept, sorted=False).indices
        return classes, errors.gather(1, classes)
    grouped = errors[:, : num_groups * GROUP_CLASSES].view(batch, num_groups, GROUP_CLASSES)
    maxima = grouped.abs().amax(2)  # (B, groups), NaN where the group holds one
    remainder = torch.arange(num_groups * GROUP_CLASSES, num_classes, device=errors.device)
    check_finite("errors", maxima)
    check_finite("errors", errors[:, num_groups * GROUP_CLASSES :])
    groups = maxima.topk(num_kept, sorted=False).indices  # (B, r)
    inside = torch.arange(GROUP_CLASSES, device=errors.device)
    candidates = (groups[:, :, None] * GROUP_CLASSES + inside).flatten(1)  # (B, r * group)
    candidates = torch.cat([candidates, remainder.expand(batch, -1)], 1)
    values = errors.gather(1, candidates)
    chosen = values.abs().topk(num_kept, sorted=False).indices
    return candidates.gather(1, chosen), values.gather(1, chosen)
