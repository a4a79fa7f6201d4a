"""Top-1 of every estimator with its interval, against chance."""

import numpy as np
from matplotlib.figure import Figure

from analysis import style
from analysis.load import RunFolder
from analysis.scores import estimators


def draw(run: RunFolder, caption: str) -> Figure:
    """Horizontal bars, the estimator's interval as a whisker chance and ceiling as lines.

    Args:
        run: a run with ``top1`` and ``random_top1``.
        caption: what it was made from.

    Returns:
        The figure.
    """
    names = estimators(run)
    top1, spread = run.metric("top1"), run.metrics.get("top1_interval") or {}
    figure = style.new_figure(1.2 + 0.24 * len(names), caption)
    axes = figure.add_subplot()
    for row, name in enumerate(names):
        value = top1[name]
        if value is None:
            axes.text(0, row, " undefined", va="center", fontsize=7)
            continue
        axes.barh(row, value, height=0.66, color=style.COLOURS[0] if name == "joint" else style.COLOURS[5])
        low, high = spread.get(name) or (None, None)
        if low is not None and high is not None:
            reach = np.clip([[value - low], [high - value]], 0, None)
            axes.errorbar(value, row, xerr=reach, color=style.ink(), capsize=2, linewidth=0.9)
    chance = run.metrics.get("random_top1")
    if chance is not None:
        axes.axvline(chance, color=style.PICK, linestyle="--", label=f"random ({chance:.3f})")
    ceiling = run.metrics.get("ceiling_top1_seeds")
    if ceiling is not None:
        axes.axvline(
            ceiling, color=style.BEST, linestyle=":", label=f"other fine-tuning seed ({ceiling:.3f})"
        )
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlim(0, 1)
    axes.set_xlabel("Top-1: share of targets whose pick was the best source")
    figure.legend(loc="outside upper right", ncols=2)
    style.grid(axes, "x")
    return figure
