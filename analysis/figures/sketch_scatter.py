"""Sketched against exact alignments, a point for every pair of tasks."""

import numpy as np
from matplotlib.figure import Figure

from analysis import style


def draw(sketched: dict[str, np.ndarray], exact: dict[str, np.ndarray], caption: str) -> Figure:
    """Scatter plots of the joint alignment and of the coupling with the line where both are equal.

    Args:
        sketched: joint and coupling, (T, T), and stderr_sketch.
        exact: the same.
        caption: what they were made from.

    Returns:
        The figure, exact values across; bars on the left are standard errors of the sketch.
    """
    figure = style.new_figure(3.2, caption)
    left, right = figure.subplots(1, 2)
    pairs = np.triu_indices(len(exact["joint"]), 1)
    for axes, name in ((left, "joint"), (right, "coupling")):
        across, upwards = exact[name][pairs], sketched[name][pairs]
        if name == "joint":
            axes.errorbar(
                across,
                upwards,
                sketched["stderr_sketch"][pairs],
                fmt="none",
                ecolor=style.MUTED,
                linewidth=0.5,
            )
        axes.plot(across, upwards, linestyle="none", marker="o", markersize=2)
        kept = np.concatenate([across[np.isfinite(across)], upwards[np.isfinite(upwards)]])
        if len(kept):
            ends = [kept.min(), kept.max()]
            axes.plot(ends, ends, color=style.ink(), linestyle=":", linewidth=0.9)
        axes.set_xlabel(f"exact {name}")
        axes.set_ylabel(f"sketched {name}")
        style.grid(axes)
    return figure
