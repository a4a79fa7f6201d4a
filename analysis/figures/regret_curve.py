"""How many targets each estimator serves within a given regret."""

import numpy as np
from matplotlib.figure import Figure

from analysis import style
from analysis.errors import AnalysisError
from analysis.pairs import Pairs

MOST_LINES = len(style.COLOURS)


def regrets(scores: np.ndarray, gain: np.ndarray) -> np.ndarray:
    """Regret of the pick of every target; sources that tie count with their mean gain.

    Args:
        scores: (T, T) [source, target]; a NaN is no candidate unless all are.
        gain: (T, T) in nats per token.

    Returns:
        Best gain minus the pick's, (T,), in nats per token.
    """
    found = []
    for target in range(len(gain)):
        others = np.arange(len(gain)) != target
        column = np.nan_to_num(scores[others, target], nan=-np.inf)
        values = gain[others, target]
        found.append(values.max() - values[column == column.max()].mean())
    return np.array(found)


def draw(pairs: Pairs, names: list[str], caption: str) -> Figure:
    """The share of targets whose regret is at most what the axis says, a step line an estimator.

    Args:
        pairs: gains, and score matrices by estimator.
        names: estimators in the order of their importance; the first ones that have scores are drawn.
        caption: what it was made from.

    Returns:
        The figure, with the mean of all sources, what a random pick comes to, as a thin line.

    Raises:
        AnalysisError: the run has no gains.
    """
    if pairs.gain is None:
        raise AnalysisError("regret: the run has no transfer gains")
    drawn = [name for name in names if name in pairs.scores][:MOST_LINES]
    figure = style.new_figure(3.3, caption)
    axes = figure.add_subplot()
    share = np.append(np.arange(len(pairs.names) + 1) / len(pairs.names), 1)
    lines = [(name, regrets(pairs.scores[name], pairs.gain)) for name in drawn]
    lines.append(("random pick", regrets(np.zeros_like(pairs.gain), pairs.gain)))
    end = 1.05 * max(float(values.max()) for _, values in lines)
    for place, (name, values) in enumerate(lines):
        random = name == "random pick"
        look = {"color": style.MUTED if random else style.COLOURS[place], "linewidth": 0.9 if random else 1.5}
        dash = "-" if random else style.DASHES[place]
        steps = np.concatenate([[0], np.sort(values), [end]])
        axes.step(steps, share, where="post", label=name, linestyle=dash, **look)  # type: ignore[arg-type]
    axes.set_xlim(0, end or 1)
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("regret: best gain minus the pick's (nats per token)")
    axes.set_ylabel("share of targets within it")
    figure.legend(loc="outside right center")
    style.grid(axes)
    return figure
