"""Cosines of tasks' mean outer products E[a (x) e]: from the largest errors at any scale, or exactly."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch

from fishersketch.baselines.checks import UndefinedSimilarityError, as_matrix
from fishersketch.baselines.largest_errors import ErrorTerms
from fishersketch.errors import FisherSketchError

# Numbers held at once: 512 MiB of float64 for the blocks of all tasks, or for one pair of error blocks.
BLOCK_NUMBERS = 2**26


class Cosines(NamedTuple):
    """Cosines between tasks and how far the errors that were not kept can move them.

    Attributes:
        value: Cosines (T, T), float64.
        error_bound: Largest possible |value - exact| (T, T), float64; 0 where every error was kept.
    """

    value: torch.Tensor
    error_bound: torch.Tensor


def outer_product_cosines(
    terms: Sequence[ErrorTerms], *, squared: bool, center: torch.Tensor | None = None
) -> Cosines:
    """Return cosines of the matrices G_i = E_t[e_t a_t^T], or of E_t[e_t^2 (a_t^2)^T], over the errors kept.

    The classes are taken in blocks: block by block, all tasks' rows of G are formed and their inner products
    added, so memory does not grow with K. The part of G left out has a norm of at most
    eps_i = E_t |a_t| |left out of e_t|, so the angle to any other task moves by at most asin(eps_i / |G_i|).

    Args:
        terms: T tasks' terms, with the same d and K.
        squared: Square activations and errors first (the diagonal of the Fisher matrix).
        center: Activation (d,) subtracted from every activation first, or None.

    Returns:
        Cosines and their error bounds.

    Raises:
        UndefinedSimilarityError: A task's G is zero.
        FisherSketchError: Tasks differ in d or K, there is no task, or the center has another size.
    """
    if not terms:
        raise FisherSketchError("no task was given: compare at least 1")
    dim = _check_dimensions([(task.activations.shape[1], task.num_classes) for task in terms], center)
    gram = torch.zeros(len(terms), len(terms), dtype=torch.float64)
    active = torch.unique(torch.cat([torch.unique_consecutive(task.classes) for task in terms]))
    for classes in active.split(max(1, BLOCK_NUMBERS // (len(terms) * dim))):
        block = torch.empty(len(terms), len(classes), dim, dtype=torch.float64)
        for i, task in enumerate(terms):
            block[i] = _rows(task, classes, squared, center)
        gram += block.flatten(1) @ block.flatten(1).T
    norms = _norms(gram)
    angles = torch.tensor([_angle(task, float(norms[i]), squared, center) for i, task in enumerate(terms)])
    moved = (angles[:, None] + angles).clamp(max=math.pi)
    return Cosines(gram / (norms[:, None] * norms), 2 * (moved / 2).sin())


def exact_outer_product_cosines(
    streams: Sequence[tuple[torch.Tensor, torch.Tensor]], *, squared: bool, center: torch.Tensor | None = None
) -> torch.Tensor:
    """Return the exact cosines of G_i = E_t[e_t a_t^T], or of the squared form, by products of samples.

    <G_i, G_j> = E_s E_t (a_s . a_t)(e_s . e_t): n^2 (d + K) work a pair, for small n.

    Args:
        streams: T pairs of activations (n_i, d) and errors (n_i, K).
        squared: Square activations and errors first.
        center: Activation (d,) subtracted from every activation first, or None.

    Returns:
        Cosines (T, T), float64.

    Raises:
        UndefinedSimilarityError: A task has no sample, or its G is zero.
        FisherSketchError: A malformed matrix, tasks that differ in d or K, or no task.
    """
    if not streams:
        raise FisherSketchError("no task was given: compare at least 1")
    inputs = []
    for number, (activations, errors) in enumerate(streams):
        if len(activations) == 0:
            raise UndefinedSimilarityError(f"no sample was given for task {number}: a task needs at least 1")
        if errors.ndim != 2 or len(errors) != len(activations):
            raise FisherSketchError(
                f"errors of task {number} has shape {tuple(errors.shape)}: give ({len(activations)}, classes)"
            )
        inputs.append(as_matrix(f"activations of task {number}", activations))
    _check_dimensions(
        [(a.shape[1], errors.shape[1]) for a, (_, errors) in zip(inputs, streams, strict=True)], center
    )
    inputs = [_prepared(a, squared, center) for a in inputs]
    rows = max(1, BLOCK_NUMBERS // (2 * streams[0][1].shape[1]))
    gram = torch.zeros(len(streams), len(streams), dtype=torch.float64)
    for i, (_, errors) in enumerate(streams):
        for a, e in zip(inputs[i].split(rows), errors.split(rows), strict=True):
            left = _prepared(as_matrix(f"errors of task {i}", e), squared)
            for j in range(i, len(streams)):
                for a_j, e_j in zip(inputs[j].split(rows), streams[j][1].split(rows), strict=True):
                    right = _prepared(as_matrix(f"errors of task {j}", e_j), squared)
                    products = (a @ a_j.T) * (left @ right.T)
                    gram[i, j] += products.sum() / (len(inputs[i]) * len(inputs[j]))
    gram = gram.triu() + gram.triu(1).T
    norms = _norms(gram)
    return gram / (norms[:, None] * norms)


def _check_dimensions(dimensions: Sequence[tuple[int, int]], center: torch.Tensor | None) -> int:
    """Check that all tasks have the same d and K, and the center the same d.

    Args:
        dimensions: d and K of each task.
        center: Activation (d,) or None.

    Returns:
        d.

    Raises:
        FisherSketchError: Something differs.
    """
    dim, num_classes = dimensions[0]
    for number, other in enumerate(dimensions):
        if other != (dim, num_classes):
            raise FisherSketchError(
                f"task {number} has {other[0]} dimensions and {other[1]} classes, and task 0 has {dim} and "
                f"{num_classes}: they must agree"
            )
    if center is not None and center.shape != (dim,):
        raise FisherSketchError(f"center has shape {tuple(center.shape)}: activations have {dim} dimensions")
    return dim


def _prepared(values: torch.Tensor, squared: bool, center: torch.Tensor | None = None) -> torch.Tensor:
    """Return activations or errors in float64 as the outer product takes them."""
    values = values.double() if center is None else values.double() - center.to("cpu", torch.float64)
    return values.square() if squared else values


def _rows(
    task: ErrorTerms, classes: torch.Tensor, squared: bool, center: torch.Tensor | None
) -> torch.Tensor:
    """Return the mean outer product's rows (C, d) for the rising classes (C,) that hold errors."""
    start = int(torch.searchsorted(task.classes, classes[0]))
    stop = int(torch.searchsorted(task.classes, classes[-1], right=True))
    if start == stop:
        return torch.zeros(len(classes), task.activations.shape[1], dtype=torch.float64)
    # Only samples with an error in these classes are widened to float64.
    samples, index = torch.unique(task.samples[start:stop], return_inverse=True)
    return torch.nn.functional.embedding_bag(
        index,
        _prepared(task.activations[samples], squared, center),
        offsets=torch.searchsorted(task.classes[start:stop], classes),
        per_sample_weights=_prepared(task.errors[start:stop], squared) / len(task.activations),
        mode="sum",
    )


def _angle(task: ErrorTerms, norm: float, squared: bool, center: torch.Tensor | None) -> float:
    """Return the largest angle, in radians, between a task's G and the part of it that was kept."""
    # sum e^4 <= (max e^2) sum e^2 over what was left out.
    rest = task.left_out_norm * task.left_out_max if squared else task.left_out_norm  # (n,)
    sizes = torch.cat([
        _prepared(a, squared, center).norm(dim=1) for a in task.activations.split(4096)
    ])  # (n,)
    ratio = float((sizes * rest).mean()) / norm
    return math.asin(ratio) if ratio < 1 else math.pi


def _norms(gram: torch.Tensor) -> torch.Tensor:
    """Return the norms (T,) behind inner products (T, T).

    Args:
        gram: Inner products (T, T).

    Returns:
        Norms (T,), all positive.

    Raises:
        UndefinedSimilarityError: A norm is 0.
    """
    empty = (gram.diagonal() <= 0).nonzero().flatten().tolist()
    if empty:
        raise UndefinedSimilarityError(
            f"task {empty[0]} has no gradient: its activations or errors are all zero"
        )
    return gram.diagonal().sqrt()
