"""A map of the tasks: classical scaling of the distances 1 - joint."""

import numpy as np
from matplotlib.figure import Figure

from analysis import style
from analysis.pairs import Pairs


def classical_scaling(distances: np.ndarray) -> tuple[np.ndarray, float]:
    """Points in the plane whose distances come near to the given ones (Torgerson's classical scaling).

    Args:
        distances: (T, T), symmetric, zero diagonal.

    Returns:
        Points (T, 2), the sign of each axis fixed by its largest entry, and the share of the summed absolute
        eigenvalues that the two axes carry.

    >>> points, share = classical_scaling(np.array([[0.0, 3.0, 4.0], [3.0, 0.0, 5.0], [4.0, 5.0, 0.0]]))
    >>> float(np.linalg.norm(points[1] - points[2]).round(6)), round(share, 6)
    (5.0, 1.0)
    """
    count = len(distances)
    centre = np.eye(count) - 1 / count
    values, vectors = np.linalg.eigh(-0.5 * centre @ distances**2 @ centre)
    values, vectors = values[::-1], vectors[:, ::-1]
    points = vectors[:, :2] * np.sqrt(np.clip(values[:2], 0, None))
    signs = np.sign(points[np.abs(points).argmax(axis=0), [0, 1]])
    total = float(np.abs(values).sum())
    share = float(np.clip(values[:2], 0, None).sum() / total) if total > 0 else 1.0
    return points * np.where(signs == 0, 1, signs), share


def draw(pairs: Pairs, caption: str) -> Figure:
    """Tasks as points, near when their joint alignment is high; colour and mark name the group.

    Args:
        pairs: the alignments. A pair whose alignment is undefined counts as not aligned (distance 1).
        caption: what they were made from.

    Returns:
        The figure.
    """
    joint = pairs.alignment["joint"]
    distances = 1 - np.nan_to_num((joint + joint.T) / 2, nan=0.0)
    np.fill_diagonal(distances, 0)
    points, share = classical_scaling(np.clip(distances, 0, None))
    figure = style.new_figure(4.6, caption)
    axes = figure.add_subplot()
    for place, group in enumerate(dict.fromkeys(pairs.groups)):
        members = [i for i, name in enumerate(pairs.groups) if name == group]
        colour, marker = style.COLOURS[place % len(style.COLOURS)], style.MARKERS[place % len(style.MARKERS)]
        axes.scatter(points[members, 0], points[members, 1], s=30, color=colour, marker=marker, label=group)
    for i, name in enumerate(pairs.names):
        axes.annotate(name, points[i], xytext=(4, 3), textcoords="offset points", fontsize=6.5)
    axes.set_xlabel(f"first axis of 1 - joint alignment (both axes carry {share:.0%})")
    axes.set_ylabel("second axis")
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.12)
    figure.legend(loc="outside upper center", ncols=min(6, len(set(pairs.groups))))
    style.grid(axes)
    return figure
