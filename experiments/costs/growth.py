"""How the time of an update grows with samples, sizes and features."""

from typing import Any

import numpy as np
import torch

from experiments.costs.sketch_work import projected, random_samples
from experiments.costs.timing import Clock, spread
from fishersketch import FisherSketch, SketchSpec

AXES = ("n", "d", "K", "m")


def growth_rows(
    base: dict[str, int], values: dict[str, list[int]], projection: str, clock: Clock, repeats: int
) -> list[dict[str, Any]]:
    """Times an update at each value of one size, the others as in `base`.

    Args:
        base: n, d, K and m.
        values: axis to its values.
        projection: its name.
        clock: reads the time.
        repeats: turns.

    Returns:
        Rows with axis, value and seconds of the whole update, {median, min, max}.
    """
    rows = []
    for axis in AXES:
        works = {}
        for value in values[axis]:
            size = base | {axis: value}
            samples = random_samples(size["n"], size["d"], size["K"], clock.device)
            sketch = FisherSketch(SketchSpec(size["d"], size["K"], size["m"], projection))
            works[str(value)] = lambda sketch=sketch, samples=samples: sketch.update(*samples)
        taken = clock.interleaved(works, repeats)
        rows += [{"axis": axis, "value": int(v), "seconds": spread(t)} for v, t in taken.items()]
    return rows


def exponents(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Fits seconds ~ value^p on each axis, by least squares on logarithms.

    Args:
        rows: what `growth_rows` returns.

    Returns:
        Axis to p.

    >>> rows = [{"axis": "n", "value": n, "seconds": {"median": 3.0 * n}} for n in (1, 2, 4)]
    >>> round(exponents(rows)["n"], 6)
    1.0
    """
    found = {}
    for axis in dict.fromkeys(row["axis"] for row in rows):
        mine = [row for row in rows if row["axis"] == axis]
        seconds = np.log([row["seconds"]["median"] for row in mine])
        found[axis] = float(np.polyfit(np.log([row["value"] for row in mine]), seconds, 1)[0])
    return found


def method_rows(
    error_dims: list[int], m: int, count: int, clock: Clock, repeats: int
) -> list[dict[str, Any]]:
    """Seconds a token of each projection of the errors, and bytes a task, against K.

    Args:
        error_dims: values of K.
        m: features.
        count: tokens.
        clock: reads the time.
        repeats: turns.

    Returns:
        Rows with method, error_dim, seconds_per_token (NaN where nothing is timed) and bytes_per_task: of
        the signature's joint payload, or of Gamma_e in float32.
    """
    rows: list[dict[str, Any]] = []
    for size in error_dims:
        errors = random_samples(count, 8, size, clock.device)[1]
        kinds = ("block_hadamard", "hadamard", "rademacher")
        works = {}
        for kind in kinds:
            projection = SketchSpec(8, size, m, kind).projections()[1]
            works[kind] = projected(projection, errors, count if kind == "rademacher" else 16)
        with torch.no_grad():
            taken = clock.interleaved(works, repeats)
        rows += [_method(kind, size, spread(taken[kind])["median"] / count, 4 * m) for kind in kinds]
        rows.append(_method("exact Gamma_e", size, float("nan"), 4 * size * size))
    return rows


def _method(name: str, size: int, seconds: float, size_bytes: int) -> dict[str, Any]:
    return {"method": name, "error_dim": size, "seconds_per_token": seconds, "bytes_per_task": size_bytes}
