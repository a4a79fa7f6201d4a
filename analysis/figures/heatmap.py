"""Alignment of every pair, clustered by group."""

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from analysis import style
from analysis.pairs import Pairs

MOST_WITH_VALUES = 20  # tasks; beyond it the printed values would be too small to read
MOST_GROUPS_SIDE_BY_SIDE = 6  # beyond it their names would overlap


def draw(pairs: Pairs, caption: str, key: str = "joint", label: str = "joint alignment (cosine)") -> Figure:
    """A heatmap with the groups together, their borders marked and the values printed.

    Args:
        pairs: the alignments.
        caption: what they were made from.
        key: which alignment.
        label: name and unit of the colour scale.

    Returns:
        The figure. The diagonal, a task with itself, is left out of the colour scale.
    """
    order = pairs.clustered()
    count = len(order)
    values = pairs.alignment[key][np.ix_(order, order)].copy()
    np.fill_diagonal(values, np.nan)
    with_values = count <= MOST_WITH_VALUES
    side = max(4.6, count * (0.38 if with_values else 0.13))
    figure = style.new_figure(side + 1.0, caption, width=max(style.WIDTH, side + 2.2))
    axes = figure.add_subplot()
    ramp = colormaps[style.RAMP].with_extremes(bad=(*to_rgb(style.MUTED), 0.25))
    image = axes.imshow(np.ma.masked_invalid(values), cmap=ramp, aspect="equal")
    names = [pairs.names[i] for i in order]
    small = 7 if with_values else 5
    axes.set_xticks(range(count), names, rotation=45, ha="right", rotation_mode="anchor", fontsize=small)
    axes.set_yticks(range(count), names, fontsize=small)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_xlabel("target")
    axes.set_ylabel("source")
    if with_values:
        _print_values(axes, image, values)
    groups = [pairs.groups[i] for i in order]
    _mark_groups(axes, groups)
    bar = figure.colorbar(image, ax=axes, shrink=0.7, pad=0.02)
    bar.set_label(label)
    bar.outline.set_visible(False)
    return figure


def _print_values(axes, image, values: np.ndarray) -> None:  # type: ignore[no-untyped-def]
    colours = image.cmap(image.norm(values))
    dark = colours[..., :3] @ np.array([0.2126, 0.7152, 0.0722]) < 0.5
    for i, j in np.ndindex(values.shape):
        if np.isfinite(values[i, j]):
            text = f"{values[i, j]:.2f}".replace("0.", ".", 1)
            axes.text(
                j, i, text, ha="center", va="center", fontsize=6.5, color="white" if dark[i, j] else "black"
            )
        elif i != j:
            axes.text(j, i, "?", ha="center", va="center", fontsize=6.5, color=style.ink())


def _mark_groups(axes, groups: list[str]) -> None:  # type: ignore[no-untyped-def]
    starts = [i for i, group in enumerate(groups) if i == 0 or group != groups[i - 1]]
    for start in starts[1:]:
        axes.axhline(start - 0.5, color=style.paper(), linewidth=2.5)
        axes.axvline(start - 0.5, color=style.paper(), linewidth=2.5)
    turned = len(starts) > MOST_GROUPS_SIDE_BY_SIDE
    for start, end in zip(starts, [*starts[1:], len(groups)], strict=True):
        axes.text(
            (start + end - 1) / 2,
            -0.7,
            groups[start].replace("_", " "),
            ha="left" if turned else "center",
            va="bottom",
            rotation=45 if turned else 0,
            rotation_mode="anchor",
            fontsize=7.5,
            fontweight="bold",
        )
