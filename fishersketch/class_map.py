"""Errors of tasks whose labels come in another order, or are a part, of shared classes."""

from collections.abc import Sequence

import torch

from fishersketch.errors import FisherSketchError


def map_classes(errors: torch.Tensor, class_map: Sequence[int], num_classes: int) -> torch.Tensor:
    r"""Moves the columns of a task's errors to where the shared classes have them.

    Error alignment compares output k of one task with output k of another, so it means something only where
    both stand for one class. With the map pi of a task's outputs into the shared classes, column pi(k) of the
    result is column k of the errors, and (e . e') between tasks is over the classes that both have.

    Args:
        errors: (N, K) of the task's own head.
        class_map: (K,) shared class of each output; no two outputs share one.
        num_classes: number of shared classes, at least K.

    Returns:
        (N, num_classes) errors, 0 for classes that the task lacks.

    Raises:
        FisherSketchError: the map does not fit the errors, leaves the classes, or sends two outputs to one.

    >>> map_classes(torch.tensor([[1.0, 2.0, -3.0]]), [2, 0, 3], 4)
    tensor([[ 2.,  0.,  1., -3.]])
    """
    targets = [int(target) for target in class_map]
    if errors.dim() != 2 or errors.shape[1] != len(targets):
        raise FisherSketchError(
            f"class_map has {len(targets)} classes and errors have shape {tuple(errors.shape)}: "
            f"expected (N, {len(targets)})"
        )
    outside = [target for target in targets if not 0 <= target < num_classes]
    if outside:
        raise FisherSketchError(f"class_map holds {outside[0]}: must be from 0 to {num_classes - 1}")
    if len(set(targets)) < len(targets):
        twice = next(target for target in targets if targets.count(target) > 1)
        raise FisherSketchError(
            f"class_map sends two outputs to class {twice}: each needs a class of its own"
        )
    mapped = errors.new_zeros(len(errors), num_classes)
    mapped[:, targets] = errors
    return mapped


def match_classes(own: Sequence[str], shared: Sequence[str]) -> list[int]:
    """Returns the place of each of a task's classes among the shared ones, by name.

    Args:
        own: names of the task's outputs, in their order.
        shared: names of the shared classes.

    Returns:
        A map for `map_classes`.

    Raises:
        FisherSketchError: a name is not among the shared classes, or stands there twice.

    >>> match_classes(["dog", "cat"], ["ant", "cat", "dog"])
    [2, 1]
    """
    places = {name: place for place, name in enumerate(shared)}
    if len(places) < len(shared):
        raise FisherSketchError("the shared classes hold a name twice: they cannot be matched by name")
    missing = [name for name in own if name not in places]
    if missing:
        raise FisherSketchError(f"class {missing[0]!r} is not among the {len(shared)} shared classes")
    return [places[name] for name in own]
