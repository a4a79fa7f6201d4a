"""Accuracy of the sketch: error against features, and rank correlation against samples."""

import numpy as np
from matplotlib.figure import Figure

from analysis import style


def draw_error(stored: dict[str, np.ndarray], caption: str) -> Figure:
    """Root mean square error of the alignments against the number of features, both axes logarithmic.

    Args:
        stored: ``arrays/agreement.npz``: features (M,), seeds (S,), measures, statistics, gaussian (M,) and
            values (M, N, S, measures, statistics), the last number of samples being the full one.
        caption: what they were made from.

    Returns:
        The figure: a line for each measure with the range over projection seeds, and the error of a cosine
        of Gaussian features, (1 - c^2) / sqrt(m), dotted.
    """
    figure = style.new_figure(3.2, caption)
    axes = figure.subplots()
    features = stored["features"]
    for place, measure in enumerate(_pair_measures(stored)):
        values = select(stored, measure, "rmse")[:, -1]  # (M, S)
        look = style.line(place)
        axes.plot(features, values.mean(1), label=measure, **look)
        axes.fill_between(
            features, values.min(1), values.max(1), color=look["color"], alpha=0.15, linewidth=0
        )
    axes.plot(
        features, stored["gaussian"], color=style.ink(), linestyle=":", label="joint, (1 - c²) / sqrt(m)"
    )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("features m")
    axes.set_ylabel("RMSE against exact")
    style.grid(axes)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return figure


def draw_samples(stored: dict[str, np.ndarray], caption: str, features: int) -> Figure:
    """Spearman with the exact alignment against the number of samples, for every measure.

    Args:
        stored: as for `draw_error`, with samples (N,) and of_full (N, S, measures, statistics).
        caption: what they were made from.
        features: m of the lines.

    Returns:
        The figure: against the exact alignment of the same samples on the left, and against that of all
        samples on the right, where the error of drawing samples comes in.
    """
    figure = style.new_figure(3.1, caption)
    left, right = figure.subplots(1, 2, sharey=True)
    row = int(np.flatnonzero(stored["features"] == features)[0])
    kind = list(stored["statistics"]).index("spearman")
    for place, measure in enumerate(stored["measures"]):
        column = list(stored["measures"]).index(measure)
        for axes, values in (
            (left, stored["values"][row, :, :, column, kind]),
            (right, stored["of_full"][:, :, column, kind]),
        ):
            look = style.line(place)
            axes.plot(stored["samples"], values.mean(1), label=str(measure), **look)
            axes.fill_between(
                stored["samples"], values.min(1), values.max(1), color=look["color"], alpha=0.15, linewidth=0
            )
    for axes, title in ((left, "exact on the same samples"), (right, "exact on all samples")):
        axes.set_title(title)
        axes.set_xscale("log")
        axes.set_xticks(stored["samples"], [f"{n:,}" for n in stored["samples"]])
        axes.minorticks_off()
        axes.set_xlabel("samples n a task")
        style.grid(axes)
    left.set_ylabel(f"Spearman with exact, m = {features:,}")
    figure.legend(*left.get_legend_handles_labels(), loc="outside upper center", ncols=5)
    return figure


def select(stored: dict[str, np.ndarray], measure: str, statistic: str) -> np.ndarray:
    """One statistic of one measure.

    Args:
        stored: as for `draw_error`.
        measure: one of its measures.
        statistic: one of its statistics.

    Returns:
        (M, N, S): features, samples, projection seeds.
    """
    column = list(stored["measures"]).index(measure)
    kind = list(stored["statistics"]).index(statistic)
    return stored["values"][..., column, kind]


def _pair_measures(stored: dict[str, np.ndarray]) -> list[str]:
    return [str(measure) for measure in stored["measures"] if measure != "delta"]
