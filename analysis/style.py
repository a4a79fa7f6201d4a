"""One look for every figure: colours, sizes, the caption line and how files are written."""

import textwrap
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import matplotlib as mpl
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure

WIDTH = 6.9  # inches: the text width of a two-column page
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")  # Okabe and Ito, without yellow
PICK, BEST = COLOURS[1], COLOURS[2]  # the source picked, and the one that was best
MARKERS = "osD^vP*Xh<>"
DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1)), (0, (1, 1)))
RAMP = "cividis"  # even in lightness, the same for the colour-blind
MUTED = "#8a8a8a"

_SHARED: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "lines.linewidth": 1.2,
    "lines.markersize": 4,
    "grid.linewidth": 0.4,
    "grid.alpha": 0.5,
    "pdf.fonttype": 42,
    "axes.prop_cycle": cycler(color=list(COLOURS)),
    "figure.constrained_layout.h_pad": 0.06,
    "figure.constrained_layout.w_pad": 0.06,
}
_KEPT = ("backend", "backend_fallback", "interactive", "toolbar")  # the user's, no matter of looks
_INK = {"light": ("#1a1a1a", "#ffffff", "#c8c8c8"), "dark": ("#e6e6e6", "#16181d", "#4a4d55")}


@contextmanager
def theme(name: str = "light") -> Generator[None, None, None]:
    """The shared style, within which figures are drawn and saved.

    Args:
        name: ``light`` (paper) or ``dark`` (a page in dark mode).

    Yields:
        Nothing; the former style comes back afterwards.
    """
    ink, paper, grid = _INK[name]
    keys = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
    shades = dict.fromkeys(keys, ink)
    shades |= dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), paper)
    kept: Any = mpl.rcParamsDefault
    settings: Any = (
        {key: kept[key] for key in kept if key not in _KEPT} | _SHARED | shades | {"grid.color": grid}
    )
    with mpl.rc_context(settings):
        yield


def ink() -> str:
    """Colour of text and lines in the theme in force.

    Returns:
        A colour of matplotlib.
    """
    return str(mpl.rcParams["text.color"])


def paper() -> str:
    """Colour of the background in the theme in force.

    Returns:
        A colour of matplotlib.
    """
    return str(mpl.rcParams["figure.facecolor"])


def grid(axes: Axes, axis: str = "both") -> None:
    """Thin grid lines behind the data.

    Args:
        axes: where.
        axis: ``x``, ``y`` or ``both``.
    """
    axes.set_axisbelow(True)
    axes.grid(True, axis=axis)  # type: ignore[arg-type]


def line(place: int) -> dict[str, Any]:
    """How one of several lines looks: no two differ in colour alone.

    Args:
        place: number of the line.

    Returns:
        Colour, marker and dashes.
    """
    return {
        "color": COLOURS[place % len(COLOURS)],
        "marker": MARKERS[place % len(MARKERS)],
        "linestyle": DASHES[place % len(DASHES)],
    }


def new_figure(height: float, caption: str, width: float = WIDTH) -> Figure:
    """An empty figure with the small line that says what it was made from.

    Args:
        height: inches.
        caption: model, data, number of samples and seed.
        width: inches.

    Returns:
        The figure, with a layout that leaves room for the caption.
    """
    figure = Figure(figsize=(width, height), layout="constrained")
    lines = textwrap.wrap(caption, max(24, int(width * 17.5)))
    figure.supxlabel("\n".join(lines), x=0.01, ha="left", fontsize=6, alpha=0.75)
    return figure


def save(figure: Figure, target: Path | BinaryIO, kind: str, dpi: int = 200) -> None:
    """Write a figure without time stamps, so that the same data give the same bytes.

    Args:
        figure: what `new_figure` made, under the theme still in force.
        target: file path or open binary file.
        kind: ``png`` or ``pdf``.
        dpi: dots per inch of a PNG.
    """
    empty = {"png": ["Software"], "pdf": ["CreationDate", "ModDate", "Producer", "Creator"]}[kind]
    figure.savefig(target, format=kind, dpi=dpi, metadata=dict.fromkeys(empty))
