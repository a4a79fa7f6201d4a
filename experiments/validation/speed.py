"""How long the sketch and the two exact routes take for the same alignments, in turns."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from experiments.progress import progress
from experiments.validation.terms import TaskTerms
from fishersketch import FisherSketch, SketchSpec, align, exact_align
from fishersketch.kernel_sums import Samples
from fishersketch.materialized import MOST_ENTRIES, materialized_kernel_sums


def speed_ratios(
    spec: SketchSpec, tasks: Sequence[TaskTerms], samples: int, repeats: int, self_terms: str
) -> dict[str, Any]:
    """Times the sketch and the exact alignment of given activations and errors, forward passes left out.

    The Gram route and the sketch make the whole matrix of alignments. The materialised route would not fit in
    memory for many tasks: it makes F, M and Gamma of two tasks and their inner products, once each, against
    the sketch of two tasks; both costs grow linearly with tasks. What is timed is run in turns, so that other
    load on the machine falls on all.

    Args:
        spec: The recipe of the sketch.
        tasks: The T tasks.
        samples: Samples of each task.
        repeats: Rounds of turns.
        self_terms: As in `align`.

    Returns:
        ``sketch``, ``gram`` (T tasks), ``sketch_pair``, ``gram_pair`` and, where d K allows,
        ``materialized_pair`` (two tasks) in seconds, each {median, min, max}; ``gram``, ``gram_pair`` and
        ``materialized_pair`` under ``ratio``: time over the sketch's in the same round, with
        ``interval`` [min, max].
    """
    parts = [task.first(samples) for task in tasks]
    pair = parts[:2]
    timed: dict[str, Callable[[], object]] = {
        "sketch": lambda: _sketch(spec, parts, self_terms),
        "gram": lambda: _exact(parts, self_terms),
        "sketch_pair": lambda: _sketch(spec, pair, self_terms),
        "gram_pair": lambda: _exact(pair, self_terms),
    }
    if spec.activation_dim * spec.error_dim <= MOST_ENTRIES:
        timed["materialized_pair"] = lambda: materialized_kernel_sums(*pair)
    _sketch(spec, pair, self_terms)  # the first use of a kernel pays for its start
    seconds: dict[str, list[float]] = {name: [] for name in timed}
    for _ in progress(range(repeats), "speed"):
        for name, call in timed.items():
            _wait(parts[0].errors.device)
            start = time.perf_counter()
            call()
            _wait(parts[0].errors.device)
            seconds[name].append(time.perf_counter() - start)
    base = {"gram": "sketch", "gram_pair": "sketch_pair", "materialized_pair": "sketch_pair"}
    ratios = {name: np.array(seconds[name]) / seconds[base[name]] for name in timed if name in base}
    return {
        "tasks": len(tasks),
        "n_samples": samples,
        "num_features": spec.num_features,
        "repeats": repeats,
        "threads": torch.get_num_threads(),
        "seconds": {name: _spread(np.array(values)) for name, values in seconds.items()},
        "ratio": {
            name: _spread(values) | {"interval": [float(values.min()), float(values.max())]}
            for name, values in ratios.items()
        },
    }


def _sketch(spec: SketchSpec, parts: Sequence[Samples], self_terms: str) -> None:
    signatures = []
    for part in parts:
        sketch = FisherSketch(spec)
        sketch.update(part.activations, part.errors, part.group)
        signatures.append(sketch.signature())
    align(signatures, self_terms)


def _exact(parts: Sequence[Samples], self_terms: str) -> None:
    exact_align([(part.activations, part.errors, part.group) for part in parts], self_terms)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _spread(values: np.ndarray) -> dict[str, float]:
    return {"median": float(np.median(values)), "min": float(values.min()), "max": float(values.max())}
