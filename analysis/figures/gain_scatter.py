"""Alignment against transfer gain, one panel a target."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import style
from analysis.errors import AnalysisError
from analysis.pairs import Pairs


def draw(pairs: Pairs, caption: str) -> Figure:
    """A point a pair: joint alignment across, gain upwards, the pick and the best source of a target marked.

    Args:
        pairs: alignments and gains.
        caption: what they were made from.

    Returns:
        The figure; every panel shares the axis of alignment and has its own axis of gain.

    Raises:
        AnalysisError: the run has no gains.
    """
    if pairs.gain is None:
        raise AnalysisError("gain against alignment: the run has no transfer gains")
    count = len(pairs.names)
    columns = min(4, count) if count <= 24 else 8
    rows = -(-count // columns)
    figure = style.new_figure(0.9 + rows * (1.45 if columns <= 4 else 1.0), caption)
    grid = figure.subplots(rows, columns, sharex=True, squeeze=False)
    for target in range(rows * columns):
        axes = grid[target // columns, target % columns]
        if target >= count:
            axes.set_visible(False)
            continue
        _panel(axes, pairs, target, pairs.gain)
        if target + columns >= count:
            axes.tick_params(labelbottom=True)
            axes.set_xlabel("joint alignment", fontsize=7)
    handles, labels = grid[0, 0].get_legend_handles_labels()
    kept = dict(zip(labels, handles, strict=True))
    figure.legend(kept.values(), kept.keys(), loc="outside upper center", ncols=4)
    figure.supylabel("gain of the target (nats per token)", fontsize=8)
    return figure


def _panel(axes: Axes, pairs: Pairs, target: int, gain: np.ndarray) -> None:
    joint = pairs.alignment["joint"][:, target]
    others = [i for i in range(len(pairs.names)) if i != target]
    same = [i for i in others if pairs.groups[i] == pairs.groups[target]]
    rest = [i for i in others if i not in same]
    axes.axhline(0, color=style.MUTED, linewidth=0.6)
    axes.scatter(
        joint[rest], gain[rest, target], s=11, color=style.COLOURS[5], label="source of another group"
    )
    axes.scatter(
        joint[same], gain[same, target], s=11, color=style.COLOURS[0], label="source of the same group"
    )
    pick, best = pairs.pick(target), pairs.best(target)
    for source, marker, size, colour, label in (
        (pick, "o", 40, style.PICK, "pick"),
        (best, "D", 90, style.BEST, "best source"),
    ):
        where = (joint[source], gain[source, target])
        axes.scatter(
            *where, s=size, marker=marker, facecolors="none", edgecolors=colour, linewidths=1.3, label=label
        )
    axes.set_title(pairs.names[target], fontsize=7.5, loc="left", pad=2)
    axes.tick_params(labelsize=6)
    axes.margins(0.12)
    style.grid(axes)
