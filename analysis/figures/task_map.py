"""A map of the tasks: classical scaling of the distances 1 - joint."""

import numpy as np
from matplotlib.figure import Figure

from analysis import style
from analysis.pairs import Pairs

WIDE, HIGH = 6.2, 3.6  # inches of the axes
LETTER, LINE = 0.058, 0.11  # inches of a label's letter and line


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
    groups = list(dict.fromkeys(pairs.groups))
    for place, group in enumerate(groups):
        members = [i for i, name in enumerate(pairs.groups) if name == group]
        colour, marker = style.COLOURS[place % len(style.COLOURS)], style.MARKERS[place % len(style.MARKERS)]
        axes.scatter(points[members, 0], points[members, 1], s=30, color=colour, marker=marker, label=group)
    scale = max(np.ptp(points[:, 0]) / (0.8 * WIDE), np.ptp(points[:, 1]) / (0.8 * HIGH)) or 1.0
    middle = (points.max(axis=0) + points.min(axis=0)) / 2
    axes.set_xlim(middle[0] - scale * WIDE / 2, middle[0] + scale * WIDE / 2)
    axes.set_ylim(middle[1] - scale * HIGH / 2, middle[1] + scale * HIGH / 2)
    left_out = 0
    for name, place_of in zip(pairs.names, _labels(points / scale, pairs.names), strict=True):
        left_out += place_of is None
        if place_of is not None:
            axes.text(scale * place_of[0], scale * place_of[1], name, fontsize=6.5, ha="left", va="center")
    also = f", {left_out} names left out where they would overlap" if left_out else ""
    axes.set_xlabel(f"first axis of 1 - joint alignment (both axes carry {share:.0%}{also})")
    axes.set_ylabel("second axis")
    figure.legend(loc="outside upper center", ncols=min(5, len(groups)))
    style.grid(axes)
    return figure


def _labels(points: np.ndarray, names: list[str]) -> list[tuple[float, float] | None]:
    # The left end of each name (inches), beside its point and clear of all else; None where there is no room.
    taken = [(x - 0.05, y - 0.05, x + 0.05, y + 0.05) for x, y in points]
    found: list[tuple[float, float] | None] = []
    for (x, y), name in zip(points, names, strict=True):
        wide = LETTER * len(name)
        starts = ((x + 0.08, y), (x - wide - 0.08, y), (x - wide / 2, y + 0.12), (x - wide / 2, y - 0.12))
        free = [at for at in starts if not any(_meet((*at, wide), box) for box in taken)]
        found.append((float(free[0][0]), float(free[0][1])) if free else None)
        if free:
            taken.append((free[0][0], free[0][1] - LINE / 2, free[0][0] + wide, free[0][1] + LINE / 2))
    return found


def _meet(label: tuple[float, float, float], box: tuple[float, float, float, float]) -> bool:
    x, y, wide = label
    return x < box[2] and x + wide > box[0] and y - LINE / 2 < box[3] and y + LINE / 2 > box[1]
