"""Error of sketched alignments against the number of features, and against the bytes of a signature."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from analysis import style


def draw(draws: pd.DataFrame, reference: float, caption: str) -> Figure:
    """Two panels with one shared axis of errors: features to the left, bytes to the right.

    Args:
        draws: columns projection, num_features, signature, payload_bytes and rmse_joint; one row a draw.
        reference: error of normal features at m = 1.
        caption: what the figure was made from.

    Returns:
        The figure: means, bars from the least to the most draw, and the reference over the root of m.
    """
    figure = style.new_figure(3.3, caption)
    left, right = figure.subplots(1, 2, sharey=True)
    for place, (kind, rows) in enumerate(draws.groupby(["projection", "signature"], sort=False)):
        label = f"{kind[0].replace('_', ' ')}, {kind[1]}"
        for axes, column in ((left, "num_features"), (right, "payload_bytes")):
            error = rows.groupby(column)["rmse_joint"].agg(["mean", "min", "max"])
            bars = [error["mean"] - error["min"], error["max"] - error["mean"]]
            axes.errorbar(error.index, error["mean"], yerr=bars, capsize=2, label=label, **style.line(place))
    features = np.array(sorted(set(draws["num_features"])))
    reach = np.array([features[0] / 1.3, features[-1] * 1.3])
    left.plot(
        reach,
        reference / np.sqrt(reach),
        color=style.MUTED,
        linewidth=0.9,
        label="normal features, (1 - c²) / √m",
    )
    left.set_xlabel("features m")
    left.set_ylabel("RMSE of the joint alignment")
    right.set_xlabel("bytes of the joint payload")
    right.axvline(16_384, color=style.MUTED, linewidth=0.6, linestyle=":")
    for axes, column in ((left, "num_features"), (right, "payload_bytes")):
        ticks = sorted(set(draws[column]))
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(ticks, [f"{tick / 1024:g}k" for tick in ticks], minor=False)
        axes.minorticks_off()
        style.grid(axes)
    low, high = draws["rmse_joint"].min(), draws["rmse_joint"].max()
    ticks = [tick for tick in (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1) if low / 2 < tick < 2 * high]
    left.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    figure.legend(*left.get_legend_handles_labels(), loc="outside upper center", ncols=4)
    return figure
