"""Gain against an unsigned and a signed score, a colour for each group of targets."""

import numpy as np
from matplotlib.figure import Figure

from analysis import style
from analysis.load import RunFolder


def draw(run: RunFolder, caption: str) -> Figure:
    """Two scatter plots over all candidate pairs: joint alignment, and mean-gradient cosine.

    Args:
        run: a run with arrays ``estimators`` and ``transfer``.
        caption: what it was made from.

    Returns:
        The figure.
    """
    scores, transfer = run.arrays("estimators"), run.arrays("transfer")
    groups, gain = transfer["groups"], transfer["gain"].mean(axis=0)
    valid = np.equal.outer(groups, groups) & ~np.eye(len(groups), dtype=bool)
    figure = style.new_figure(2.9, caption)
    panels = figure.subplots(1, 2, sharey=True)
    for axes, (name, label) in zip(
        panels,
        (("joint", "joint alignment (squares)"), ("mean_gradient", "mean-gradient cosine (signed)")),
        strict=True,
    ):
        for place, group in enumerate(dict.fromkeys(groups.tolist())):
            pairs = valid & (groups == group)[None, :]
            look = style.line(place) | {"linestyle": ""}
            axes.plot(scores[name][pairs], gain[pairs], label=group, **look)
        axes.axhline(0, color=style.MUTED, linewidth=0.6)
        axes.set_xlabel(label)
        style.grid(axes)
    panels[0].set_ylabel("gain of the target (nats per answer)")
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=len(names))
    return figure
