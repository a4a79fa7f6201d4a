"""Do two tasks predict the same labels equally often? A lexical baseline that uses no model."""

from collections import Counter
from dataclasses import dataclass

import torch

from fishersketch.baselines.checks import UndefinedSimilarityError
from fishersketch.baselines.collector import check_chunk


@dataclass(frozen=True)
class LabelCounts:
    """How often each label was the target.

    Attributes:
        labels: The labels seen (L,), rising, int64.
        counts: Times that each was seen (L,), int64.
    """

    labels: torch.Tensor
    counts: torch.Tensor


class LabelCounter:
    """Counts a task's labels, in memory of the number of distinct labels."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()

    def update(self, activations: torch.Tensor, errors: torch.Tensor, labels: torch.Tensor) -> None:
        """Count one chunk's labels.

        Args:
            activations: Head inputs (B, d), not used.
            errors: Errors (B, K), of which only K is used.
            labels: Target classes (B,).

        Raises:
            FisherSketchError: The parts do not belong together.
        """
        self._counts.update(check_chunk(activations, errors, labels).tolist())

    def summary(self) -> LabelCounts:
        """Return the counts so far.

        Returns:
            The labels seen and their counts.

        Raises:
            UndefinedSimilarityError: Nothing was counted.
        """
        if not self._counts:
            raise UndefinedSimilarityError("no sample was given: a task needs at least 1 label")
        labels = sorted(self._counts)
        return LabelCounts(torch.tensor(labels), torch.tensor([self._counts[label] for label in labels]))


def token_frequency_cosine(first: LabelCounts, second: LabelCounts) -> float:
    """Return the cosine of the square roots of two tasks' label counts.

    With p and q the tasks' label frequencies, cos = sum_y sqrt(p_y q_y), the Bhattacharyya coefficient.

    Args:
        first: One task's label counts.
        second: The other's.

    Returns:
        The cosine, in [0, 1]: 1 for the same frequencies, 0 for tasks that share no label.

    Note:
        Bhattacharyya: On a measure of divergence between two statistical populations defined by their
        probability distributions, Bulletin of the Calcutta Mathematical Society 35, 1943.

    Examples:
        >>> import torch
        >>> first = LabelCounts(torch.tensor([3, 7]), torch.tensor([1, 3]))
        >>> second = LabelCounts(torch.tensor([7, 9]), torch.tensor([12, 4]))
        >>> token_frequency_cosine(first, second)  # sqrt(3/4 * 12/16)
        0.75
    """
    both = torch.isin(first.labels, second.labels), torch.isin(second.labels, first.labels)
    products = first.counts[both[0]].double() * second.counts[both[1]].double()
    return float(products.sqrt().sum() / (first.counts.sum().double() * second.counts.sum().double()).sqrt())
