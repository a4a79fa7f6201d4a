"""Theorem 3.2's witness: two tasks with the same inputs and representations, and disjoint label sets."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from experiments.relabelling.label_map import label_map
from experiments.relabelling.shared_inputs import SharedInputs, union
from experiments.relabelling.shared_mass import shared_mass
from fishersketch import Alignment, FisherSketch, SketchSpec, align, exact_align
from fishersketch.baselines import linear_cka, rsa, svcca

Task = tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]
SOFTMAXES = ("restricted", "full")
REPRESENTATIONS = ("cka", "cka_debiased", "rsa", "svcca")


def representation_metrics(first: torch.Tensor, second: torch.Tensor, components: int) -> dict[str, float]:
    """Compares two tasks by what a model makes of their inputs.

    Args:
        first: Activations (N, d).
        second: Activations (N, d) of the other task, for the same inputs.
        components: At most so many singular directions in SVCCA.

    Returns:
        A value for each of `REPRESENTATIONS`.
    """
    measures: tuple[Callable[[], float], ...] = (
        lambda: linear_cka(first, second),
        lambda: linear_cka(first, second, debiased=True),
        lambda: rsa(first, second),
        lambda: svcca(first, second, max_components=components),
    )
    return {name: measure() for name, measure in zip(REPRESENTATIONS, measures, strict=True)}


def exact_pair(first: Task, second: Task) -> dict[str, float]:
    """Returns the exact alignment of two tasks.

    The tasks are the empirical distributions of their samples. With the same inputs in both, a token of one
    meets itself in the other, so self terms are plain ones; split ones would leave these meetings out of the
    norms alone, and S_a would exceed 1.

    Args:
        first: Activations (N, d), errors (N, K) and None.
        second: The other task's.
    """
    return _pair(exact_align([first, second], "plain"))


def sketched_pair(first: Task, second: Task, spec: SketchSpec, signature: str) -> dict[str, float]:
    """Returns the alignment of two tasks from their signatures, with its ``stderr_sketch``.

    Args:
        first: Activations (N, d), errors (N, K) and None.
        second: The other task's.
        spec: How they are sketched.
        signature: Numbers that a signature is made of.
    """
    signatures = []
    for activations, errors, _ in (first, second):
        sketch = FisherSketch(spec)
        sketch.update(activations, errors)
        signatures.append(sketch.signature(signature))
    table = align(signatures, "plain")
    return _pair(table) | {"stderr_sketch": float(table.stderr_sketch[0, 1])}


def witness(
    first: SharedInputs,
    second: SharedInputs,
    exact: SharedInputs,
    domain: str,
    seed: int,
    spec: SketchSpec,
    signature: str,
    components: int,
) -> dict[str, Any]:
    """Measures a text's witness pair: its own labels, and the same tokens with labels from a disjoint set.

    Args:
        first: The text's head inputs and raw outputs in the model's precision.
        second: The same from another pass over the same inputs: the second task's.
        exact: The same in float64.
        domain: Name of the text.
        seed: Draws the labels of the second task.
        spec: How the tasks are sketched.
        signature: Numbers that a signature is made of.
        components: At most so many singular directions in SVCCA.

    Returns:
        ``identical``, whether both passes gave the same bits; the number of ``label_types`` and of
        ``common_labels``; the representation metrics; for each softmax the exact alignments in both
        precisions and the sketched ones; and `shared_mass` of the full softmax.
    """
    drawn = label_map(first.labels, first.raw.shape[1], domain, seed)
    own, moved = first.labels, drawn.relabel(first.labels, overlap=0.0)
    away = drawn.replacements.sort().values
    whole = torch.arange(first.raw.shape[1])
    result: dict[str, Any] = {
        "identical": torch.equal(first.activations, second.activations),
        "label_types": len(drawn.types),
        "common_labels": int(torch.isin(drawn.types, away).sum()),
        **representation_metrics(first.activations, second.activations, components),
    }
    for kind in SOFTMAXES:
        pairs: dict[str, dict[str, float]] = {}
        for left, right in ((exact, exact), (first, second)):
            if kind == "full":
                errors = left.errors(own), right.errors(moved)
            else:
                errors = left.errors_within(own, drawn.types, whole), right.errors_within(moved, away, whole)
            tasks = (left.activations, errors[0], None), (right.activations, errors[1], None)
            pairs[str(left.raw.dtype).removeprefix("torch.")] = exact_pair(*tasks)
            if left is first:
                pairs["sketch"] = sketched_pair(*tasks, spec, signature)
        result[kind] = pairs
    rotated = exact.rotated(union([drawn.types, drawn.replacements]))
    result["mass"] = shared_mass(exact.activations, rotated, (own, moved), (drawn.types, away))
    return result


def worst(witnesses: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Returns over all texts what is furthest from the theorem, and the full softmax's mean.

    Args:
        witnesses: What `witness` returned for each text.

    Returns:
        ``joint``, the restricted exact alignment furthest from 0 in either precision; the least of every
        representation metric and of ``activation``; ``identical``, whether all are; ``joint_full`` with its
        extremes, and the means of what explains it.
    """
    found = list(witnesses.values())
    exact = {
        kind: [pair for w in found for route, pair in w[kind].items() if route != "sketch"]
        for kind in SOFTMAXES
    }
    full = [w["full"]["float64"]["joint"] for w in found]
    return {
        "joint": max((pair["joint"] for pair in exact["restricted"]), key=abs),
        "identical": all(w["identical"] for w in found),
        "activation": min(pair["activation"] for pairs in exact.values() for pair in pairs),
        **{name: min(w[name] for w in found) for name in REPRESENTATIONS},
        "joint_sketch": max((w["restricted"]["sketch"]["joint"] for w in found), key=abs),
        "joint_full": float(np.mean(full)),
        "joint_full_min": min(full),
        "joint_full_max": max(full),
        "joint_full_sketch": float(np.mean([w["full"]["sketch"]["joint"] for w in found])),
        "mass": {name: float(np.mean([w["mass"][name] for w in found])) for name in found[0]["mass"]},
    }


def _pair(table: Alignment) -> dict[str, float]:
    return {name: float(getattr(table, name)[0, 1]) for name in ("joint", "activation", "error", "coupling")}
