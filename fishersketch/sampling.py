"""The error of an alignment from the samples that were drawn, by leaving out blocks of them."""

from collections.abc import Sequence

import torch

from fishersketch.controlled import STREAMS, controlled_joint
from fishersketch.errors import FisherSketchError
from fishersketch.provenance import describe_difference
from fishersketch.self_terms import SELF_TERMS
from fishersketch.sketch import FisherSketch


def stderr_sampling(blocks: Sequence[Sequence[FisherSketch]], self_terms: str = "split") -> torch.Tensor:
    r"""Estimates the standard error of each joint alignment from the samples drawn, by a block jackknife.

    The samples of a task are cut into blocks, each sketched apart; their merger is the task's sketch. With
    S_b the alignment when block b of task i is left out, n_b of its n samples and h_b = n / n_b, the
    variance from the draw of task i's samples is that of the delete-a-group jackknife,

        1/B sum_b (P_b - mean P)^2 / (h_b - 1),   P_b = h_b S - (h_b - 1) S_b,

    with the mean weighted by 1 / h_b; for equal blocks it is (B - 1)/B sum_b (S_b - mean S_b)^2. Tasks are
    drawn independently, so the variances of both sides of a pair add. Features are shared by all blocks:
    what they add is `Alignment.stderr_sketch`, and the two errors are independent, so that
    sqrt(stderr_sketch^2 + stderr_sampling^2) is the whole.

    Blocks must be independent draws: whole sequences, or whole documents where sequences are cut from
    them. Few blocks make it coarse: it is itself uncertain by about 1 / sqrt(2 (B - 1)), 27 % with 8.

    Args:
        blocks: For each of T tasks its B >= 2 sketches of disjoint samples; B may differ.
        self_terms: "split" or "plain", as in `align`.

    Returns:
        (T, T) float64, symmetric, its diagonal 0; NaN where a self term is not positive.

    Raises:
        FisherSketchError: A task has fewer than two blocks or an empty one, sketches are not comparable, or
            the samples left have no two halves for split self terms.

    Source:
        Busing, Meijer and van der Leeden, Delete-m jackknife for unequal m, Statistics and Computing 1999.

    >>> from fishersketch import SketchSpec
    >>> def block(seed):
    ...     g = torch.Generator().manual_seed(seed)
    ...     sketch = FisherSketch(SketchSpec(3, 5, 64))
    ...     sketch.update(torch.randn(8, 3, generator=g), torch.randn(8, 5, generator=g), torch.arange(8))
    ...     return sketch
    >>> stderr_sampling([[block(0), block(1)], [block(2), block(3)]]).shape
    torch.Size([2, 2])
    """
    if self_terms not in SELF_TERMS:
        raise FisherSketchError(f"self_terms={self_terms!r}: must be one of {', '.join(SELF_TERMS)}")
    _check(blocks)
    tasks = [_task(sketches, number, self_terms) for number, sketches in enumerate(blocks)]
    whole = {name: torch.cat([units[name][:1] for units, _ in tasks]) for name in STREAMS}  # (T, m)
    variance = torch.stack([_variance(_joint(units, whole), share) for units, share in tasks])
    return (variance + variance.T).sqrt().fill_diagonal_(0.0)


def _check(blocks: Sequence[Sequence[FisherSketch]]) -> None:
    if not blocks:
        raise FisherSketchError("no tasks given: nothing to align")
    for task, sketches in enumerate(blocks):
        if len(sketches) < 2:
            raise FisherSketchError(f"task {task} has {len(sketches)} blocks: leaving one out needs two")
        for number, sketch in enumerate(sketches):
            first = blocks[0][0]
            difference = first.spec.difference(sketch.spec) or describe_difference(
                first.provenance, sketch.provenance
            )
            if difference:
                raise FisherSketchError(f"task {task}, block {number} cannot be compared: {difference}")
            if sketch.num_samples == 0:
                raise FisherSketchError(f"task {task}, block {number} holds no samples")


def _task(
    sketches: Sequence[FisherSketch], number: int, self_terms: str
) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Returns each stream's (1 + B, m) signatures over their norms, the whole first, and (B,) shares.

    Raises:
        FisherSketchError: Without a block, a half is empty that split self terms need.
    """
    states = [sketch.state()[0] for sketch in sketches]
    sums = torch.stack([state["sums"][:, :3] for state in states])  # (B, 2, 3, m)
    counts = torch.stack([state["counts"] for state in states]).to(torch.float64)  # (B, 2)
    share = counts.sum(1) / counts.sum()
    sums = torch.cat([sums.sum(0)[None], sums.sum(0) - sums])
    counts = torch.cat([counts.sum(0)[None], counts.sum(0) - counts])
    mean = sums.sum(1) / counts.sum(1)[:, None, None]  # (1 + B, 3, m)
    if self_terms == "split" and bool((counts == 0).any()):
        raise FisherSketchError(
            f"task {number}: without one of its blocks a half holds no samples: give blocks groups of "
            "both parities, or ask for self_terms='plain'"
        )
    halves = sums / counts[:, :, None, None] if self_terms == "split" else torch.stack([mean, mean], 1)
    first, second = _streams(halves[:, 0]), _streams(halves[:, 1])
    units = {}
    for name, features in _streams(mean).items():
        squares = (first[name] * second[name]).sum(1)
        units[name] = features / torch.where(squares > 0, squares, torch.nan).sqrt()[:, None]
    return units, share


def _streams(means: torch.Tensor) -> dict[str, torch.Tensor]:
    """Returns the (1 + B, m) streams of (1 + B, 3, m) means of joint, activation and error."""
    joint, activation, error = means.unbind(1)
    return {"joint": joint, "separable": activation * error, "activation": activation, "error": error}


def _joint(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> torch.Tensor:
    """Returns the (1 + B, T) joint alignments of a task's signatures, as `align` has them."""
    cosine = {name: first[name] @ second[name].T for name in STREAMS}
    return controlled_joint(first, second, cosine)[0]


def _variance(cosines: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
    """Returns (T,) variances of one task's cosines, (1 + B, T), the whole first."""
    excess = 1 / share[:, None] - 1  # h_b - 1
    pseudo = cosines[0] + excess * (cosines[0] - cosines[1:])
    deviation = pseudo - (share[:, None] * pseudo).sum(0)
    return (deviation.square() / excess).mean(0)
