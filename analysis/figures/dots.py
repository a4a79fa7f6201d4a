"""Values by name as dots with their intervals."""

import pandas as pd
from matplotlib.figure import Figure

from analysis import style


def draw(frame: pd.DataFrame, name: str, value: str, axis: str, caption: str) -> Figure:
    """A dot a row, the first on top, with the interval from ``<value>_low`` to ``<value>_high``.

    Args:
        frame: the rows.
        name: column of the names.
        value: column of the values.
        axis: what the values are, with their unit.
        caption: what it was made from.

    Returns:
        The figure.
    """
    figure = style.new_figure(0.9 + 0.2 * max(len(frame), 2), caption)
    axes = figure.subplots()
    places = range(len(frame))
    bars = [frame[value] - frame[f"{value}_low"], frame[f"{value}_high"] - frame[value]]
    axes.errorbar(frame[value], places, xerr=bars, fmt="o", color=style.COLOURS[0], capsize=2)
    axes.set_yticks(places, [str(label).replace("_", " ") for label in frame[name]], parse_math=False)
    axes.set_ylim(len(frame) - 0.5, -0.5)
    axes.set_xlabel(axis)
    style.grid(axes, "x")
    return figure
