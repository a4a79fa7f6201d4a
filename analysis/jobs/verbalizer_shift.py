"""Verbalizer shift: how well each estimator ranks other words for the same answers."""

import pandas as pd

from analysis.caption import caption
from analysis.figures import gain_by_score, top1_bars
from analysis.load import RunFolder
from analysis.presentation import Figure, Presentation, Table
from analysis.scores import scores
from analysis.tables import markdown

METRICS = (
    "mode",
    "top1.joint",
    "top1.error",
    "top1.mean_gradient",
    "top1.activation",
    "random_top1",
    "mean_spearman.joint",
    "mean_spearman.mean_gradient",
    "mechanism.joint_swapped",
    "mechanism.mean_gradient_swapped",
)
UNITS = "regret in nats per answer; intervals over targets"


def present(run: RunFolder) -> Presentation:
    """Tables, figures and a summary of a verbalizer-shift run.

    Args:
        run: a finished run.

    Returns:
        What to show.
    """
    line = caption(run)
    found = scores(run)
    swaps = _swaps(run)
    means = pd.DataFrame([
        {"measure": name, "value": value} for name, value in run.metric("mechanism").items()
    ])
    tables = [
        Table("scores", f"How well each estimator ranks verbalizers ({run.metric('mode')}); {UNITS}", found),
        Table("swapped", "Each verbalizer against itself with its two words swapped", swaps),
        Table("mechanism", "Means over targets; gains in nats per answer", means),
    ]
    held = run.metric("top1")
    said = ", ".join(f"{name} {held[name]:.2f}" for name in ("joint", "error", "mean_gradient", "activation"))
    figures = [
        Figure(
            "top1",
            "Top-1 of every estimator with its interval, and chance",
            f"Bars of Top-1: {said}.",
            lambda: top1_bars.draw(run, line),
        ),
        Figure(
            "gain_by_score",
            "Gain of a target against the joint alignment and the signed mean-gradient cosine",
            f"Two scatter plots over candidates; mean Spearman per target "
            f"{run.metric('mean_spearman.joint')} and {run.metric('mean_spearman.mean_gradient')}.",
            lambda: gain_by_score.draw(run, line),
        ),
    ]
    shown = found[["estimator", "top1", "mean_regret", "mean_spearman"]]
    return Presentation(f"{run.job}: {line}\n\n{markdown(shown)}\n{markdown(means)}", tables, figures)


def _swaps(run: RunFolder) -> pd.DataFrame:
    swapped, transfer = run.arrays("swapped"), run.arrays("transfer")
    return pd.DataFrame({
        "verbalizer": swapped["names"].tolist(),
        "joint_with_swapped": swapped["joint"],
        "mean_gradient_with_swapped": swapped["mean_gradient"],
        "gain_own": transfer["gain"].mean(axis=0).diagonal(),
        "gain_of_swapped": transfer["swapped_gain"].mean(axis=0).diagonal(),
        "base_loss": transfer["base_loss"],
    })
