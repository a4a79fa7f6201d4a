"""Alignment against transfer gain: a panel a target, or one panel for many."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from analysis import style
from analysis.errors import AnalysisError
from analysis.pairs import Pairs

MOST_PANELS = 40  # targets; more share one panel
COLUMNS = 4


def draw(pairs: Pairs, caption: str) -> Figure:
    """A point a pair: joint alignment across, gain upwards, the pick and the best source of a target marked.

    Args:
        pairs: alignments and gains.
        caption: what they were made from.

    Returns:
        The figure; panels share the axis of alignment and each has its own axis of gain.

    Raises:
        AnalysisError: the run has no gains.
    """
    if pairs.gain is None:
        raise AnalysisError("gain against alignment: the run has no transfer gains")
    count = len(pairs.names)
    together = count > MOST_PANELS
    columns = 1 if together else min(COLUMNS, count)
    rows = 1 if together else -(-count // columns)
    figure = style.new_figure(5.0 if together else 0.9 + 1.45 * rows, caption)
    grid = figure.subplots(rows, columns, sharex=True, squeeze=False)
    for target in range(count):
        axes = grid[0, 0] if together else grid[target // columns, target % columns]
        _points(axes, pairs, target, pairs.gain, size=0.5 if together else 1.0)
        if not together:
            axes.set_title(pairs.names[target], fontsize=7.5, loc="left", pad=2)
            axes.tick_params(labelsize=6)
    for place, axes in enumerate(grid.flat):
        axes.set_visible(together or place < count)
        axes.axhline(0, color=style.MUTED, linewidth=0.6)
        axes.margins(0.14)
        axes.xaxis.set_major_locator(MaxNLocator(4))
        style.grid(axes)
        if together or place + columns >= count:
            axes.tick_params(labelbottom=True)
            axes.set_xlabel("joint alignment", fontsize=7)
    handles, labels = grid[0, 0].get_legend_handles_labels()
    kept = dict(zip(labels, handles, strict=True))
    figure.legend(kept.values(), kept.keys(), loc="outside upper center", ncols=4)
    figure.supylabel("gain of the target (nats per token)", fontsize=8)
    return figure


def _points(axes: Axes, pairs: Pairs, target: int, gain: np.ndarray, size: float) -> None:
    joint = pairs.alignment["joint"][:, target]
    others = [i for i in range(len(pairs.names)) if i != target]
    same = [i for i in others if pairs.groups[i] == pairs.groups[target]]
    rest = [i for i in others if i not in same]
    for members, colour, label in (
        (rest, style.COLOURS[5], "source of another group"),
        (same, style.COLOURS[0], "source of the same group"),
    ):
        # Small and seen through where thousands of pairs share the panel.
        dense = min(1.0, 1.2 * size)
        area = 11 * size * dense
        axes.scatter(
            joint[members], gain[members, target], s=area, color=colour, alpha=dense, linewidth=0, label=label
        )
    for source, marker, area, colour, label in (
        (pairs.pick(target), "o", 40, style.PICK, "pick"),
        (pairs.best(target), "D", 90, style.BEST, "best source"),
    ):
        look = {"facecolors": "none", "edgecolors": colour, "linewidths": 1.3 * size, "zorder": 3}
        where = (joint[source], gain[source, target])
        axes.scatter(*where, s=area * size, marker=marker, label=label, **look)  # type: ignore[arg-type]
