"""The sketch against the exact alignment by Gram matrices, over tasks and samples."""

from functools import partial
from typing import Any

import torch

from experiments.costs.sketch_work import form_errors, random_logits, random_samples
from experiments.costs.timing import Clock, Work, spread
from fishersketch import FisherSketch, SketchSpec, align
from fishersketch.head_transform import OutputTransform
from fishersketch.kernel_sums import Samples, token_kernel_sums


def exact_rows(
    activation_dim: int,
    error_dim: int,
    m: int,
    tasks: list[int],
    samples: list[int],
    cap: int,
    clock: Clock,
    repeats: int,
) -> list[dict[str, Any]]:
    """Seconds of both ways for every number of tasks and of samples.

    Measured are the kernel sums of one pair of tasks and of a task with itself, of at most `cap` samples
    each. A row scales that by count: T (T - 1) / 2 pairs and T self terms, and (n / cap)^2 where n is
    above the cap. Both ways form each error once; the head's product is in neither.

    Args:
        activation_dim: d.
        error_dim: K.
        m: features of the sketch.
        tasks: values of T.
        samples: values of n, samples a task.
        cap: samples measured at most.
        clock: reads the time.
        repeats: turns.

    Returns:
        One row for each (T, n): sizes, median seconds of both ways, ``speedup`` with its spread and what
        was scaled.
    """
    rows = []
    for n in samples:
        count = min(n, cap)
        taken = _measured(activation_dim, error_dim, m, tasks, count, clock, repeats)
        rows += [_row(t, n, count, taken) | {"d": activation_dim, "K": error_dim, "m": m} for t in tasks]
    return rows


def _measured(
    activation_dim: int, error_dim: int, m: int, tasks: list[int], count: int, clock: Clock, repeats: int
) -> dict[str, list[float]]:
    """Returns seconds of kernel sums, of errors, an update and T signatures compared."""
    first, second = (
        random_samples(count, activation_dim, error_dim, clock.device, seed=seed) for seed in (0, 1)
    )
    one, other = Samples(*first), Samples(*second)
    outputs, labels = random_logits(count, error_dim, clock.device)
    logits = outputs.clone()
    sketch = FisherSketch(SketchSpec(activation_dim, error_dim, m))
    sketch.update(*first)
    signatures = [sketch.signature()] * max(tasks)
    works: dict[str, Work] = {
        "self": lambda: token_kernel_sums(one, one),
        "pair": lambda: token_kernel_sums(one, other),
        "form": lambda: form_errors(OutputTransform(), logits, labels),
        "update": lambda: sketch.update(*first),
    }
    works |= {f"align{t}": partial(align, signatures[:t]) for t in tasks}
    with torch.no_grad():
        return clock.interleaved(works, repeats, lambda: logits.copy_(outputs))


def _row(tasks: int, n: int, count: int, taken: dict[str, list[float]]) -> dict[str, Any]:
    exact, sketched = [], []
    for turn, pair in enumerate(taken["pair"]):
        form = tasks * (n / count) * taken["form"][turn]
        sums = tasks * taken["self"][turn] + tasks * (tasks - 1) / 2 * pair
        exact.append((n / count) ** 2 * sums + form)
        sketched.append(tasks * (n / count) * taken["update"][turn] + form + taken[f"align{tasks}"][turn])
    return {
        "T": tasks,
        "n": n,
        "exact_seconds": spread(exact)["median"],
        "sketch_seconds": spread(sketched)["median"],
        "speedup": spread([x / y for x, y in zip(exact, sketched, strict=True)]),
        "scaled": "pairs" if n == count else f"pairs, and {count} samples to n",
    }
