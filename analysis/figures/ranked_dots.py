"""Ranked sources as dots with error bars."""

import math

import pandas as pd
from matplotlib.figure import Figure

from analysis import style

_MOST = 40  # sources that a page has room for


def total_error(sketch: float | None, sampling: float | None) -> float | None:
    """The standard error from both sources of it.

    Args:
        sketch: from the random features, or None where it is undefined.
        sampling: from the tokens drawn, or None where it is not known.

    Returns:
        The root of the sum of squares of what is known, or None.

    >>> total_error(3.0, 4.0), total_error(3.0, None)
    (5.0, 3.0)
    """
    known = [value for value in (sketch, sampling) if value is not None and not math.isnan(value)]
    return math.hypot(*known) if known else None


def draw(frame: pd.DataFrame, target: str, caption: str) -> Figure:
    """Joint alignment of every source with its standard error, best on top; the pick is marked.

    Args:
        frame: ``source``, ``joint``, ``stderr_sketch`` and ``stderr_sampling``, best first.
        target: name of the target.
        caption: what it was made from.

    Returns:
        The figure.
    """
    kept = frame.dropna(subset=["joint"]).head(_MOST)
    figure = style.new_figure(1.1 + 0.22 * max(len(kept), 2), caption)
    axes = figure.subplots()
    for place, row in enumerate(kept.itertuples()):
        error = total_error(row.stderr_sketch, row.stderr_sampling) or 0.0
        axes.errorbar(
            row.joint,
            place,
            xerr=error,
            fmt="D" if place == 0 else "o",
            color=style.PICK if place == 0 else style.COLOURS[0],
            capsize=2,
        )
    axes.set_yticks(range(len(kept)), [str(name) for name in kept["source"]], parse_math=False)
    axes.set_ylim(len(kept) - 0.5, -0.5)
    axes.set_xlabel(f"joint alignment with {target}, with one standard error", parse_math=False)
    style.grid(axes, "x")
    return figure
