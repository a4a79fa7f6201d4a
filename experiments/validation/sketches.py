"""Sketches of all tasks under one recipe, looked at after growing numbers of samples."""

from collections.abc import Sequence

from experiments.validation.terms import TaskTerms
from fishersketch import FisherSketch, SketchSpec, TaskSignature


def growing_signatures(
    spec: SketchSpec, tasks: Sequence[TaskTerms], samples: Sequence[int], dtypes: Sequence[str] = ("float32",)
) -> list[dict[str, list[TaskSignature]]]:
    """Streams every task once and takes its signature each time a number of samples is reached.

    Args:
        spec: The recipe.
        tasks: The T tasks.
        samples: Rising numbers of samples.
        dtypes: How signatures are stored.

    Returns:
        For each number of samples, the T signatures by dtype.
    """
    taken: list[dict[str, list[TaskSignature]]] = [{dtype: [] for dtype in dtypes} for _ in samples]
    for task in tasks:
        sketch, seen = FisherSketch(spec), 0
        for place, count in enumerate(samples):
            rows = slice(seen, count)
            sketch.update(task.activations[rows], task.errors[rows], task.group[rows])
            seen = count
            for dtype in dtypes:
                taken[place][dtype].append(sketch.signature(dtype))
    return taken
