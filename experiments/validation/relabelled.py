"""Tasks whose labels come in another order: alignment lost, and restored by a class map."""

from collections.abc import Sequence

import numpy as np
import torch

from experiments.draws import permutations
from fishersketch import FisherSketch, SketchSpec, TaskSignature, align
from fishersketch.class_map import map_classes, match_classes
from fishersketch.kernel_sums import Samples


def relabelled_alignment(
    spec: SketchSpec, tasks: Sequence[Samples], classes: Sequence[str], self_terms: str, seed: int
) -> dict[str, float]:
    """Aligns tasks with copies of themselves whose outputs stand in another order.

    A copy has the same images and a head with its rows, and so its errors, in an order of its own, as for a
    data set that lists the same classes otherwise. It is matched by the classes' names.

    Args:
        spec: The recipe of the sketches.
        tasks: The T tasks.
        classes: Names of the shared classes, in the order of the errors.
        self_terms: As in `align`.
        seed: Draws the orders.

    Returns:
        ``unmapped_joint`` and ``mapped_joint``: the mean sketched joint alignment of a task with its copy,
        without and with the map; ``unmapped_error`` and ``mapped_error`` likewise; ``worst_change``: the
        largest difference of the mapped copies' alignments with each other from those of the tasks.
    """
    orders = permutations("class order", seed, len(tasks), len(classes))
    found: dict[str, list[float]] = {}
    mapped_signatures = []
    for task, order in zip(tasks, orders, strict=True):
        shuffled = task.errors[:, torch.from_numpy(order)]
        own = [classes[place] for place in order]
        mapped = map_classes(shuffled, match_classes(own, classes), len(classes))
        original = _signature(spec, task, task.errors)
        mapped_signatures.append(_signature(spec, task, mapped))
        for name, copy in (("unmapped", _signature(spec, task, shuffled)), ("mapped", mapped_signatures[-1])):
            table = align([original, copy], self_terms="plain")
            found.setdefault(f"{name}_joint", []).append(float(table.joint[0, 1]))
            found.setdefault(f"{name}_error", []).append(float(table.error[0, 1]))
    before = align([_signature(spec, task, task.errors) for task in tasks], self_terms).joint
    after = align(mapped_signatures, self_terms).joint
    return {name: float(np.mean(values)) for name, values in found.items()} | {
        "worst_change": float((before - after).abs().nan_to_num().max())
    }


def _signature(spec: SketchSpec, task: Samples, errors: torch.Tensor) -> TaskSignature:
    sketch = FisherSketch(spec)
    sketch.update(task.activations, errors, task.group)
    return sketch.signature()
