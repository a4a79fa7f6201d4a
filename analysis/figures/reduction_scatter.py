"""Each factor of the alignment against the perplexity reduction, over all pairs of corpora."""

import numpy as np
from matplotlib.figure import Figure

from analysis import style
from analysis.load import RunFolder
from analysis.pairs import FACTORS, Pairs

AXES = {
    "absolute": "reduction of the target's perplexity",
    "relative": "reduction of the target's perplexity (share)",
}


def draw(run: RunFolder, pairs: Pairs, truth: str, caption: str) -> Figure:
    """A panel a factor and a point a pair of different corpora, marked by its target.

    Args:
        run: a run with ``arrays/perplexity.npz``.
        pairs: its alignments.
        truth: ``absolute`` or ``relative``.
        caption: what they were made from.

    Returns:
        The figure; each panel names its correlation and the Mantel p.
    """
    reduction = run.arrays("perplexity")[truth]
    found = run.metric(f"correlation.all.{truth}")
    figure = style.new_figure(5.4, caption)
    grid = figure.subplots(2, 2, sharey=True)
    for axes, factor in zip(grid.flat, FACTORS, strict=True):
        for target, name in enumerate(pairs.names):
            others = np.arange(len(pairs.names)) != target
            look = style.line(target)
            axes.scatter(
                pairs.alignment[factor][others, target],
                reduction[others, target],
                s=16,
                color=look["color"],
                marker=look["marker"],
                label=name,
            )
        axes.set_title(
            f"Spearman {found['spearman'][factor]:.2f}, Mantel p {found['p_mantel'][factor]:.2g}",
            fontsize=7.5,
            loc="left",
        )
        axes.axhline(0, color=style.MUTED, linewidth=0.6)
        axes.set_xlabel(f"{factor} (source and target)")
        style.grid(axes)
    handles, labels = grid.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, title="target", loc="outside right upper")
    figure.supylabel(AXES[truth], fontsize=8)
    return figure
