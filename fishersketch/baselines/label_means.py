"""Mean activations a label, which give unpaired tasks rows that belong together."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from fishersketch.baselines.checks import UndefinedSimilarityError, check_finite
from fishersketch.baselines.collector import check_chunk
from fishersketch.errors import FisherSketchError


@dataclass(frozen=True)
class LabelMeans:
    """A task's mean activation for each label.

    Attributes:
        labels: The labels seen (L,), rising, int64.
        counts: Samples behind each mean (L,), int64.
        means: Mean activations (L, d), float64.
    """

    labels: torch.Tensor
    counts: torch.Tensor
    means: torch.Tensor


class PairedMeans(NamedTuple):
    """Two tasks' mean activations over the labels that both have.

    Attributes:
        first: One task's means (s, d).
        second: The other's (s, d), in the same order of labels.
        labels: The shared labels (s,), rising.
    """

    first: torch.Tensor
    second: torch.Tensor
    labels: torch.Tensor


class LabelMeansCollector:
    """Sums a task's activations by label in float64, in memory of distinct labels times d."""

    def __init__(self) -> None:
        self._rows: dict[int, int] = {}
        self._sums = torch.zeros(0, 0, dtype=torch.float64)  # (rows reserved, d)
        self._counts = torch.zeros(0, dtype=torch.int64)  # (rows reserved,)

    def update(self, activations: torch.Tensor, errors: torch.Tensor, labels: torch.Tensor) -> None:
        """Add one chunk.

        Args:
            activations: Head inputs (B, d).
            errors: Errors (B, K), of which only K is used.
            labels: Target classes (B,).

        Raises:
            FisherSketchError: The parts do not belong together, d changed, or an activation is not finite.
        """
        labels = check_chunk(activations, errors, labels)
        check_finite("activations", activations)
        if self._rows and activations.shape[1] != self._sums.shape[1]:
            raise FisherSketchError(
                f"activations has {activations.shape[1]} dimensions, the first chunk {self._sums.shape[1]}"
            )
        if len(labels) == 0:
            return
        rows = torch.tensor(
            [self._rows.setdefault(label, len(self._rows)) for label in labels.tolist()], dtype=torch.int64
        )
        self._reserve(len(self._rows), activations.shape[1])
        self._sums.index_add_(0, rows, activations.detach().to("cpu", torch.float64))
        self._counts.index_add_(0, rows, torch.ones_like(rows))

    def summary(self) -> LabelMeans:
        """Return the means so far.

        Returns:
            The labels seen, their counts and mean activations.

        Raises:
            UndefinedSimilarityError: No sample was given.
        """
        if not self._rows:
            raise UndefinedSimilarityError("no sample was given: a task needs at least 1 label")
        labels = torch.tensor(sorted(self._rows))
        rows = torch.tensor([self._rows[label] for label in labels.tolist()])
        counts = self._counts[rows]
        return LabelMeans(labels, counts, self._sums[rows] / counts[:, None])

    def _reserve(self, needed: int, dim: int) -> None:
        """Grow the rows by doubling, so that a long stream copies each sum a bounded number of times."""
        if needed <= len(self._sums):
            return
        sums = torch.zeros(max(needed, 2 * len(self._sums)), dim, dtype=torch.float64)
        counts = torch.zeros(len(sums), dtype=torch.int64)
        if len(self._sums):
            sums[: len(self._sums)] = self._sums
            counts[: len(self._counts)] = self._counts
        self._sums, self._counts = sums, counts


def paired_label_means(first: LabelMeans, second: LabelMeans, *, min_count: int = 1) -> PairedMeans:
    """Return two tasks' mean activations over the labels that both have, row by row the same label.

    Tasks without common inputs give representation similarity no pairs of samples; their common labels do.
    The result describes those labels only, each with the same weight, and says nothing of the others.

    Args:
        first: One task's label means.
        second: The other's.
        min_count: Samples that a label needs in each task to be used.

    Returns:
        The means over the s shared labels, which CKA, RSA and SVCCA take as s samples.

    Raises:
        UndefinedSimilarityError: No label is shared.
        FisherSketchError: `min_count` is below 1.

    Examples:
        >>> import torch
        >>> first = LabelMeans(torch.tensor([2, 5]), torch.tensor([1, 4]), torch.tensor([[0.0], [1.0]]))
        >>> second = LabelMeans(torch.tensor([5, 8]), torch.tensor([2, 1]), torch.tensor([[3.0], [4.0]]))
        >>> paired_label_means(first, second)
        PairedMeans(first=tensor([[1.]]), second=tensor([[3.]]), labels=tensor([5]))
    """
    if min_count < 1:
        raise FisherSketchError(f"min_count={min_count}: a label needs at least 1 sample")
    enough = first.counts >= min_count, second.counts >= min_count
    labels = first.labels[enough[0]], second.labels[enough[1]]
    shared, rows, columns = np.intersect1d(labels[0].numpy(), labels[1].numpy(), return_indices=True)
    if len(shared) == 0:
        raise UndefinedSimilarityError(f"no label has {min_count} samples in both tasks")
    return PairedMeans(
        first.means[enough[0]][torch.from_numpy(rows)],
        second.means[enough[1]][torch.from_numpy(columns)],
        torch.from_numpy(shared),
    )


def on_label_means(
    measure: Callable[[torch.Tensor, torch.Tensor], float], *, min_count: int = 1, min_labels: int = 10
) -> Callable[[LabelMeans, LabelMeans], float]:
    """Turn a measure of paired representations into a similarity of unpaired tasks.

    Args:
        measure: Takes two matrices (s, d) whose rows belong together, e.g. `linear_cka`.
        min_count: Samples that a label needs in each task to be used.
        min_labels: Shared labels that a pair of tasks needs to have a value. Tasks that share two or three
            labels look alike or unlike by chance: CKA of two languages with three common tokens was 0.95.

    Returns:
        A similarity of two tasks' `LabelMeans` over the labels that both have, which raises
        UndefinedSimilarityError where they are too few.
    """

    def similarity(first: LabelMeans, second: LabelMeans) -> float:
        pairs = paired_label_means(first, second, min_count=min_count)
        if len(pairs.labels) < min_labels:
            raise UndefinedSimilarityError(
                f"{len(pairs.labels)} labels have {min_count} samples in both tasks, "
                f"and at least {min_labels} are needed"
            )
        return measure(pairs.first, pairs.second)

    return similarity
