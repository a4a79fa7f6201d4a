"""Error of the sketch against the number of features and against the bytes of a signature."""

import pandas as pd
from matplotlib.figure import Figure

from analysis import style


def draw(points: pd.DataFrame, caption: str) -> Figure:
    """Root mean square error of the joint alignment, both axes logarithmic.

    Args:
        points: columns m, bytes, rmse and kind; points of one kind are joined.
        caption: what they were made from.

    Returns:
        The figure: m on the left, bytes on the right, and a dotted line falling as 1 / sqrt(m).
    """
    figure = style.new_figure(3.1, caption)
    left, right = figure.subplots(1, 2, sharey=True)
    for place, (kind, group) in enumerate(points.groupby("kind", sort=True)):
        look = style.line(place)
        for axes, column in ((left, "m"), (right, "bytes")):
            ordered = group.sort_values([column, "rmse"])
            axes.plot(ordered[column], ordered["rmse"], label=str(kind), **look)
    sizes = points["m"].agg(["min", "max"]).astype(float)
    start = float(points.loc[points["m"] == points["m"].min(), "rmse"].max())
    falling = start * (sizes.iloc[0] / sizes) ** 0.5
    left.plot(sizes, falling, color=style.ink(), linestyle=":", linewidth=0.9, label="1 / sqrt(m)")
    for axes, label in ((left, "features m"), (right, "bytes a signature")):
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xlabel(label)
        style.grid(axes)
    left.set_ylabel("RMSE of joint alignment")
    handles, names = left.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=3)
    return figure
