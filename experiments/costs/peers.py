"""Other libraries' projections of head gradients, on the same tokens and with as many outputs."""

import importlib
from collections.abc import Callable
from functools import partial
from importlib import metadata
from typing import Any

import torch

from experiments.costs.sketch_work import random_samples
from experiments.costs.timing import Clock, spread
from experiments.failures import summary
from fishersketch import FisherSketch, SketchSpec

FIRST = "first: mean gradient"
SECOND = "second: Fisher"
TRAKER_BLOCK, DATTRI_BLOCK = 16, 100  # outputs whose random signs exist at once: asked for, and fixed
Samples = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
Setup = Callable[[], Callable[[], object]]


def peer_rows(
    activation_dim: int, error_dims: list[int], m: int, count: int, limit: int, clock: Clock, repeats: int
) -> list[dict[str, Any]]:
    """Seconds a token of each library at each vocabulary size.

    Libraries that project the dense gradient need d V numbers a token and m rows of d V random signs, which
    they make anew, a block at a time, at every call: two of these blocks are timed and scaled by count.

    Args:
        activation_dim: d.
        error_dims: values of V.
        m: outputs of a projection.
        count: tokens.
        limit: bytes that a library may need; above it, it is not run.
        clock: reads the time.
        repeats: turns.

    Returns:
        Rows with library, version, moment, V, seconds_per_token (NaN where not run), bytes_needed and status.
    """
    rows = []
    for size in error_dims:
        samples = random_samples(count, activation_dim, size, clock.device)
        dense = 4 * activation_dim * size
        sides = 4 * int(m**0.5) * (size + activation_dim)
        ours = 4 * count * size + 2 * 3 * 8 * m
        libraries: list[tuple[str, str, int, Setup, int]] = [
            ("fishersketch", SECOND, ours, partial(_ours, samples, m), m),
            ("traker", FIRST, dense * (count + TRAKER_BLOCK), partial(_trak, samples), 2 * TRAKER_BLOCK),
            ("dattri", FIRST, dense * (count + DATTRI_BLOCK), partial(_dattri, samples), 2 * DATTRI_BLOCK),
            ("bergson", FIRST, sides, partial(_bergson, samples, m), m),
        ]
        for library, moment, needed, setup, timed in libraries:
            row: dict[str, Any] = {"library": library, "moment": moment, "V": size, "bytes_needed": needed}
            rows.append(row | _timed(library, needed, limit, setup, timed / m, clock, count, repeats))
    return rows


def _timed(
    library: str,
    needed: int,
    limit: int,
    setup: Setup,
    share: float,
    clock: Clock,
    count: int,
    repeats: int,
) -> dict[str, Any]:
    found: dict[str, Any] = {"version": None, "seconds_per_token": float("nan")}
    try:
        found["version"] = metadata.version(library)
    except metadata.PackageNotFoundError:
        if library != "fishersketch":  # which may run from a checkout
            return found | {"status": "not installed: pip install -e '.[bench]'"}
    if needed > limit:
        return found | {"status": f"not run: needs more than {limit / 2**30:.0f} GiB"}
    try:
        work = setup()
    except (ImportError, OSError) as error:
        return found | {"status": f"cannot be imported: {summary(error)}"}
    taken = clock.interleaved({"work": work}, repeats)["work"]
    status = "timed" if share == 1 else f"{share:.2%} of the outputs timed, scaled by count"
    return found | {"seconds_per_token": spread(taken)["median"] / count / share, "status": status}


def _gradients(samples: Samples) -> torch.Tensor:
    activations, errors, _ = samples
    return torch.einsum("nd,nk->ndk", activations, errors).flatten(1)  # (N, d V)


def _ours(samples: Samples, m: int) -> Callable[[], object]:
    sketch = FisherSketch(SketchSpec(samples[0].shape[1], samples[1].shape[1], m))
    return lambda: sketch.update(*samples)


def _trak(samples: Samples) -> Callable[[], object]:
    projectors = importlib.import_module("trak.projectors")
    gradients = _gradients(samples)
    projector = projectors.BasicProjector(
        grad_dim=gradients.shape[1],
        proj_dim=2 * TRAKER_BLOCK,
        seed=0,
        proj_type=projectors.ProjectionType.rademacher,
        device=gradients.device,
        block_size=TRAKER_BLOCK,
    )
    return lambda: projector.project(gradients, model_id=0)


def _dattri(samples: Samples) -> Callable[[], object]:
    random_project = importlib.import_module("dattri.func.projection").random_project
    gradients = _gradients(samples)
    project = random_project(
        gradients,
        feature_batch_size=len(gradients),
        proj_dim=2 * DATTRI_BLOCK,
        proj_max_batch_size=32,
        proj_seed=0,
        proj_type="rademacher",
        device=gradients.device.type,
    )
    return lambda: project(gradients)


def _bergson(samples: Samples, m: int) -> Callable[[], object]:
    create = importlib.import_module("bergson.collector.collector").create_projection_matrix
    activations, errors, _ = samples
    side = int(m**0.5)
    left, right = (
        create(name, side, x.shape[1], torch.float32, x.device, "rademacher")
        for name, x in (("cost/left", activations), ("cost/right", errors))
    )
    # Their collector multiplies both sides and sums over the sequence: (side, N) (N, side).
    return lambda: (activations @ left.T).T @ (errors @ right.T)
