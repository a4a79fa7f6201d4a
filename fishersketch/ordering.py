"""An order of tasks in which later ones should disturb earlier ones least."""

from collections.abc import Sequence

import torch

from fishersketch.errors import FisherSketchError

_MOST_TASKS = 16  # 2^16 subsets of tasks


def predicted_interference(similarity: torch.Tensor, order: Sequence[int], recency: float = 0.5) -> float:
    r"""What training on tasks one after the other should do to the earlier ones, in no unit.

    A task j at place p of T disturbs each earlier task i as far as the two are unlike, and the less the more
    tasks come after j, which may undo it:

        I(order) = sum_j recency^(T - 1 - p_j) sum_{i before j} (1 - S_ij).

    With recency 1 every order has the same value, S being symmetric; the smaller it is, the more the last
    tasks count.

    Args:
        similarity: (T, T) alignments S, symmetric; the diagonal is not used.
        order: tasks, first trained first, each once.
        recency: in (0, 1].

    Returns:
        The prediction.

    Raises:
        FisherSketchError: `order` names a task twice or one that is not there, or recency is out of range.

    >>> S = torch.tensor([[1.0, 0.9, 0.1], [0.9, 1.0, 0.4], [0.1, 0.4, 1.0]])
    >>> round(predicted_interference(S, [0, 2, 1]), 3), round(predicted_interference(S, [0, 1, 2]), 3)
    (1.15, 1.55)
    """
    _check(similarity, recency)
    if sorted(order) != list(range(len(similarity))):
        raise FisherSketchError(f"order={list(order)}: must name each of {len(similarity)} tasks once")
    unlike = 1 - similarity.double()
    last = len(order) - 1
    return float(
        sum(
            recency ** (last - place) * float(unlike[list(order[:place]), task].sum())
            for place, task in enumerate(order)
        )
    )


def order_tasks(similarity: torch.Tensor, recency: float = 0.5) -> list[int]:
    """Finds the order of least `predicted_interference`, exactly, by going through the subsets of tasks.

    Args:
        similarity: (T, T) alignments, symmetric, T at most 16; the diagonal is not used.
        recency: in (0, 1].

    Returns:
        Tasks, first trained first; of equal orders the first in the order given.

    Raises:
        FisherSketchError: an alignment is not defined, there are too many tasks, or recency is out of range.

    >>> S = torch.tensor([[1.0, 0.9, 0.1], [0.9, 1.0, 0.4], [0.1, 0.4, 1.0]])
    >>> order_tasks(S)
    [0, 2, 1]
    """
    _check(similarity, recency)
    count = len(similarity)
    if count > _MOST_TASKS:
        raise FisherSketchError(f"{count} tasks: at most {_MOST_TASKS} can be ordered")
    unlike = (1 - similarity.double()).tolist()
    best: dict[int, tuple[float, tuple[int, ...]]] = {0: (0.0, ())}
    for _ in range(count):
        grown: dict[int, tuple[float, tuple[int, ...]]] = {}
        for members, (cost, order) in best.items():
            weight = recency ** (count - 1 - len(order))
            for task in range(count):
                if members & 1 << task:
                    continue
                added = (cost + weight * sum(unlike[before][task] for before in order), (*order, task))
                if members | 1 << task not in grown or added < grown[members | 1 << task]:
                    grown[members | 1 << task] = added
        best = grown
    return list(best[(1 << count) - 1][1])


def _check(similarity: torch.Tensor, recency: float) -> None:
    if similarity.ndim != 2 or similarity.shape[0] != similarity.shape[1] or not len(similarity):
        raise FisherSketchError(f"similarity has shape {tuple(similarity.shape)}: must be (T, T)")
    off = similarity[~torch.eye(len(similarity), dtype=torch.bool)]
    if not torch.isfinite(off).all():
        raise FisherSketchError("similarity: holds values that are not finite; leave those tasks out")
    if not 0 < recency <= 1:
        raise FisherSketchError(f"recency={recency}: must be above 0 and at most 1")
