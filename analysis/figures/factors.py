"""The three factors whose product is the joint alignment, as stacked bars."""

import numpy as np
from matplotlib.figure import Figure

from analysis import style
from analysis.pairs import Pairs

PARTS = (("activation", style.COLOURS[0]), ("error", style.COLOURS[4]), ("coupling", style.COLOURS[3]))
MOST_BARS = 40  # of more targets, those whose pick is least aligned


def draw(pairs: Pairs, caption: str) -> Figure:
    """For each target's pick, how much each factor takes from perfect alignment, in nats.

    ``-ln(joint) = -ln(activation) - ln(error) - ln(coupling)``: a bar to the right lowers the joint
    alignment, one to the left (a coupling above 1) raises it; the diamond is the sum.

    Args:
        pairs: the alignments.
        caption: what they were made from.

    Returns:
        The figure, of at most `MOST_BARS` picks, the least aligned. A pair with a factor at or below 0 has no
        logarithm and is named so instead.
    """
    joints = [pairs.alignment["joint"][pairs.pick(target), target] for target in range(len(pairs.names))]
    targets = sorted(
        sorted(range(len(joints)), key=lambda j: (np.nan_to_num(joints[j], nan=-1), j))[:MOST_BARS]
    )
    count = len(targets)
    figure = style.new_figure(1.2 + 0.24 * count, caption)
    axes = figure.add_subplot()
    labels = []
    for row, target in enumerate(targets):
        source = pairs.pick(target)
        labels.append(f"{pairs.names[target]}  ←  {pairs.names[source]}")
        values = [float(pairs.alignment[key][source, target]) for key, _ in PARTS]
        joint = float(pairs.alignment["joint"][source, target])
        if not all(np.isfinite(value) and value > 0 for value in [*values, joint]):
            axes.text(0, row, " undefined: a factor is not above 0", va="center", fontsize=6.5)
            continue
        ends = {True: 0.0, False: 0.0}
        for (key, colour), value in zip(PARTS, values, strict=True):
            cost = -np.log(value)
            side = cost >= 0
            axes.barh(row, cost, left=ends[side], height=0.7, color=colour, label=key, linewidth=0)
            ends[side] += cost
        axes.scatter(-np.log(joint), row, marker="D", s=16, color=style.ink(), zorder=3, label="joint (sum)")
    axes.axvline(0, color=style.ink(), linewidth=0.6)
    axes.set_yticks(range(count), labels)
    axes.set_ylim(count - 0.4, -0.6)
    axes.set_xlabel("cost in alignment, -ln(factor) (nats)")
    axes.set_ylabel("target  ←  pick")
    handles, names = axes.get_legend_handles_labels()
    kept = dict(zip(names, handles, strict=True))
    figure.legend(kept.values(), kept.keys(), loc="outside upper center", ncols=4)
    style.grid(axes, "x")
    return figure
