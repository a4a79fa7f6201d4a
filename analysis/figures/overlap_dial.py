"""Label overlap moved from 0 to 1 with representations fixed: what moves, and what cannot."""

import numpy as np
from matplotlib.figure import Figure

from analysis import style
from analysis.load import RunFolder

PANELS = {"restricted": "softmax over the task's own labels", "full": "softmax over the whole vocabulary"}
_LABELS = {"joint": "joint alignment", "error": "error alignment", "activation": "activation alignment"}
_METRICS = {"cka": "CKA", "cka_debiased": "CKA, debiased", "rsa": "RSA", "svcca": "SVCCA"}


def draw(run: RunFolder, caption: str) -> Figure:
    """Alignments and representation metrics against label overlap, a panel for each softmax.

    Args:
        run: a run of the job identifiability.
        caption: what it was made from.

    Returns:
        The figure; thin lines are single texts, bands intervals over relabellings.
    """
    dial = run.metric("dial")
    overlaps = dial["overlaps"]
    stored = run.arrays("dial_representations")
    figure = style.new_figure(3.1, caption)
    panels = figure.subplots(1, 2, sharey=True)
    for axes, (kind, title) in zip(panels, PANELS.items(), strict=True):
        for place, (name, label) in enumerate(_LABELS.items()):
            look = style.line(place)
            axes.plot(overlaps, dial[kind][name], label=label, **look)
            if name == "joint":
                low, high = np.array(dial[kind]["joint_interval"]).T
                axes.fill_between(overlaps, low, high, color=look["color"], alpha=0.25, linewidth=0)
                for curve in dial[kind]["joint_by_domain"].values():
                    axes.plot(overlaps, curve, color=look["color"], linewidth=0.5, alpha=0.6)
        for place, (name, label) in enumerate(_METRICS.items()):
            # Each is marked at places of its own: the lines lie on each other.
            look = style.line(len(_LABELS) + place) | {"markevery": (place, len(_METRICS))}
            axes.plot(overlaps, stored[name].mean(axis=0), label=label, **look)
        axes.set_title(title)
        axes.set_xlabel("share of label types that both tasks have")
        axes.set_ylim(-0.04, 1.06)
        style.grid(axes)
    panels[0].set_ylabel("similarity of the two tasks")
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=4)
    return figure
