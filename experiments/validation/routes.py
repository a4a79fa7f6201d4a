"""The two exact routes against each other."""

from collections.abc import Sequence

from fishersketch import exact_align
from fishersketch.kernel_sums import Samples
from fishersketch.materialized import MOST_ENTRIES


def route_difference(tasks: Sequence[Samples], self_terms: str) -> dict[str, float]:
    """Returns the largest difference between the Gram and the materialised route.

    Args:
        tasks: A few tasks with few samples: the materialised route forms F again for every pair.
        self_terms: As in `align`.

    Returns:
        ``tasks``, ``n_samples`` and ``max_difference`` of joint, activation, error and coupling, in float64;
        only ``entries``, d K, where F would have too many.
    """
    entries = tasks[0].activations.shape[1] * tasks[0].errors.shape[1]
    if entries > MOST_ENTRIES:
        return {"entries": entries}
    doubles = [(task.activations.double(), task.errors.double(), task.group) for task in tasks]
    gram, formed = (exact_align(doubles, self_terms, route=route) for route in ("gram", "materialized"))
    difference = max(
        float((getattr(gram, name) - getattr(formed, name)).abs().nan_to_num().max())
        for name in ("joint", "activation", "error", "coupling")
    )
    samples = len(tasks[0].errors)
    return {"entries": entries, "tasks": len(tasks), "n_samples": samples, "max_difference": difference}
