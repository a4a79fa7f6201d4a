"""Time and memory of each method against the output size K."""

import pandas as pd
from matplotlib.figure import Figure

from analysis import style


def draw(frame: pd.DataFrame, caption: str) -> Figure:
    """Milliseconds a token and bytes a task against K, all axes logarithmic.

    Args:
        frame: columns method, error_dim, seconds_per_token and bytes_per_task; a NaN leaves its point out.
        caption: what it was made from.

    Returns:
        The figure.
    """
    figure = style.new_figure(3.3, caption)
    left, right = figure.subplots(1, 2)
    panels = (
        (left, "seconds_per_token", 1e3, "time a token (ms)"),
        (right, "bytes_per_task", 1.0, "memory a task (bytes)"),
    )
    for axes, column, scale, label in panels:
        for place, (method, group) in enumerate(frame.groupby("method", sort=True)):
            kept = group.dropna(subset=[column]).sort_values("error_dim")
            look = style.line(place)
            axes.plot(kept["error_dim"], kept[column] * scale, label=str(method), **look)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("output size K")
        axes.set_ylabel(label)
        style.grid(axes)
    handles, names = left.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=4)
    return figure
