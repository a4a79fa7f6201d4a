"""A value of every layer, against how deep the layer lies."""

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from analysis import style


def draw(frame: pd.DataFrame, value: str, axis: str, caption: str, level: float | None = None) -> Figure:
    """A line for each kind of layer, over the depth of its block.

    Args:
        frame: columns depth, kind and `value`; one outside of all blocks has depth NaN: a flat line.
        value: column of the values.
        axis: what they are, with their unit.
        caption: what they were made from.
        level: a value to compare with, drawn across; None for none.

    Returns:
        The figure.
    """
    figure = style.new_figure(3.4, caption)
    axes = figure.subplots()
    inside = frame[frame["depth"].notna()]
    for place, (kind, rows) in enumerate(inside.groupby("kind", sort=False)):
        rows = rows.sort_values("depth")
        axes.plot(rows["depth"], rows[value], label=str(kind), **style.line(place))
    for place, row in enumerate(frame[frame["depth"].isna()].to_dict("records")):
        dash = style.DASHES[1 + place % 5]
        axes.axhline(row[value], color=style.ink(), linewidth=0.9, linestyle=dash)
        axes.annotate(
            row["kind"],
            (1, row[value]),
            xycoords=("axes fraction", "data"),
            horizontalalignment="right",
            verticalalignment="bottom",
            fontsize=7,
        )
    if level is not None:
        axes.axhline(level, color=style.MUTED, linewidth=0.9)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("block, from the input to the output")
    axes.set_ylabel(axis)
    style.grid(axes)
    if len(inside):
        figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=4)
    return figure
