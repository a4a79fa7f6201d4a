"""The block projection against the dense one and the full transform, at equal m."""

from typing import Any

import torch

from experiments.costs.sketch_work import projected, random_samples, updated
from experiments.costs.timing import Clock, ratios, spread
from fishersketch import SketchSpec

RIVALS = {"dense_rademacher": "rademacher", "full_srht": "hadamard"}
ROWS = 16  # of a chunk, for the structured projections, as in an update


def projection_speedup(
    activation_dim: int, error_dim: int, m: int, count: int, clock: Clock, repeats: int
) -> dict[str, Any]:
    """Times the error side, and the whole update, of three projections on the same samples.

    The dense projection gets all samples at once, which suits it best: its signs are bytes, turned into
    floats a block at a time.

    Args:
        activation_dim: d.
        error_dim: K.
        m: features.
        count: tokens.
        clock: reads the time.
        repeats: turns.

    Returns:
        For each rival its seconds over the block projection's, {median, min, max}: of the error side, and
        under ``update`` of the whole update; and seconds a token of each.
    """
    samples = random_samples(count, activation_dim, error_dim, clock.device)
    errors, updates = {}, {}
    for kind in ("block_hadamard", *RIVALS.values()):
        spec = SketchSpec(activation_dim, error_dim, m, kind)
        projections = spec.projections()
        rows = count if kind == "rademacher" else ROWS
        errors[kind] = projected(projections[1], samples[1], rows)
        updates[kind] = updated(spec, projections, samples, rows)
    with torch.no_grad():
        on_errors = clock.interleaved(errors, repeats)
        on_updates = clock.interleaved(updates, repeats)
    found: dict[str, Any] = {"update": {}, "error_seconds_per_token": {}}
    for name, kind in RIVALS.items():
        found[name] = spread(ratios(on_errors[kind], on_errors["block_hadamard"]))
        found["update"][name] = spread(ratios(on_updates[kind], on_updates["block_hadamard"]))
    for kind, taken in on_errors.items():
        found["error_seconds_per_token"][kind] = spread([t / count for t in taken])
    return found | {"n_tokens": count, "error_dim": error_dim, "num_features": m}
