"""How much the choice of corpora matters: the correlation over every choice of as many."""

import numpy as np
from matplotlib.figure import Figure

from analysis import style
from analysis.load import RunFolder


def draw(run: RunFolder, names: list[str], paper: float | None, caption: str) -> Figure:
    """A row an estimator and a point a choice of corpora, without and with the diagonal.

    Args:
        run: a run with ``arrays/subsets.npz``.
        names: the estimators, from the top.
        paper: the paper's correlation, or None.
        caption: what it was made from.

    Returns:
        The figure, the named choice marked.
    """
    figure = style.new_figure(1.5 + 0.34 * len(names), caption)
    grid = figure.subplots(1, 2, sharey=True, sharex=True)
    for axes, ending, title in zip(
        grid,
        ("", "_with_diagonal"),
        ("pairs of two different corpora", "a corpus with itself too"),
        strict=True,
    ):
        held = run.arrays(f"subsets{ending}")
        for row, name in enumerate(names):
            rho = held[f"spearman_{name}"]
            axes.plot(np.sort(rho), np.full(len(rho), row), "|", color=style.COLOURS[0], label="a choice")
            chosen = run.metric(f"correlation.subset{ending}.absolute.spearman")[name]
            axes.plot(chosen, row, "D", color=style.PICK, markersize=5, label="the five named")
            whole = run.metric(f"correlation.all{ending}.absolute.spearman")[name]
            axes.plot(whole, row, "o", color=style.BEST, fillstyle="none", markersize=7, label="all corpora")
        if paper is not None:
            axes.axvline(paper, color=style.ink(), linestyle="--", linewidth=0.8, label=f"paper ({paper:g})")
        axes.axvline(0, color=style.MUTED, linewidth=0.6)
        axes.set_title(title, fontsize=7.5, loc="left")
        axes.set_xlabel("Spearman with the perplexity reduction")
        style.grid(axes, "x")
    grid[0].set_yticks(range(len(names)), names)
    grid[0].set_ylim(len(names) - 0.5, -0.5)
    handles, labels = grid[0].get_legend_handles_labels()
    kept = dict(zip(labels, handles, strict=True))
    figure.legend(kept.values(), kept.keys(), loc="outside upper center", ncols=4)
    return figure
