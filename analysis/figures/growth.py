"""How the seconds of an update grow with samples, sizes and features."""

import pandas as pd
from matplotlib.figure import Figure

from analysis import style

AXES = {"n": "samples n", "d": "activation size d", "K": "output size K", "m": "features m"}


def draw(frame: pd.DataFrame, exponents: dict[str, float], caption: str) -> Figure:
    """A panel for each size: seconds against it, both logarithmic, bars from the fastest to the slowest turn.

    Args:
        frame: columns axis, value, median, min and max.
        exponents: axis to the fitted power.
        caption: what it was made from.

    Returns:
        The figure.
    """
    figure = style.new_figure(2.3, caption)
    panels = figure.subplots(1, len(AXES), sharey=True)
    for place, (axes, (axis, label)) in enumerate(zip(panels, AXES.items(), strict=True)):
        rows = frame[frame["axis"] == axis].sort_values("value")
        bars = [rows["median"] - rows["min"], rows["max"] - rows["median"]]
        axes.errorbar(rows["value"], rows["median"], yerr=bars, capsize=2, **style.line(place))
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xlabel(label)
        axes.set_title(f"power {exponents[axis]:.2f}")
        style.grid(axes)
    panels[0].set_ylabel("seconds an update")
    return figure
