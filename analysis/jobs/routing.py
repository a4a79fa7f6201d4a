"""Routing: where each router sends the inputs, and the perplexity that comes of it."""

import numpy as np
import pandas as pd

from analysis.caption import caption
from analysis.figures import dots
from analysis.load import RunFolder
from analysis.presentation import Figure, Presentation, Table
from analysis.tables import markdown

METRICS = (
    "accuracy.joint",
    "accuracy.mean_gradient",
    "accuracy.random",
    "perplexity.always_base",
    "perplexity.best_single",
    "perplexity.joint",
    "perplexity.oracle",
)


def present(run: RunFolder) -> Presentation:
    """Tables, figures and a summary of a routing run.

    Args:
        run: a finished run.

    Returns:
        What to show.
    """
    line = caption(run)
    accuracy, perplexity = _accuracy(run), _perplexity(run)
    tables = [
        Table(
            "accuracy",
            "Share of inputs sent to the adapter of their own domain; intervals over inputs",
            accuracy,
        ),
        Table(
            "perplexity",
            "Perplexity of the completions on every route; loss in nats per token; the best single adapter: "
            f"{run.metric('best_single')}",
            perplexity,
        ),
        Table(
            "confusion",
            "Inputs of each domain by the adapter that the joint alignment picks",
            _confusion(run),
        ),
    ]
    figures = [
        Figure(
            "accuracy",
            "Routing accuracy with its interval, and chance",
            "Dots of routing accuracy: " + _said(accuracy, "router", "accuracy"),
            lambda: dots.draw(
                accuracy, "router", "accuracy", "share of inputs sent to their own domain", line
            ),
        ),
        Figure(
            "perplexity",
            "Perplexity of the completions on every route, with its interval",
            "Dots of perplexity: " + _said(perplexity, "route", "perplexity"),
            lambda: dots.draw(perplexity, "route", "perplexity", "perplexity of the completions", line),
        ),
    ]
    text = f"{run.job}: {line}\n\n{markdown(accuracy)}\n{markdown(perplexity)}"
    return Presentation(text, tables, figures)


def _accuracy(run: RunFolder) -> pd.DataFrame:
    held, ends = run.metric("accuracy"), run.metric("accuracy_interval")
    groups = run.metric("group_accuracy")
    names = sorted(held, key=lambda name: -held[name])
    return pd.DataFrame({
        "router": names,
        "accuracy": [held[name] for name in names],
        "accuracy_low": [ends[name][0] if name in ends else held[name] for name in names],
        "accuracy_high": [ends[name][1] if name in ends else held[name] for name in names],
        "group_accuracy": [groups[name] for name in names],
    })


def _perplexity(run: RunFolder) -> pd.DataFrame:
    held, ends = run.metric("perplexity"), run.metric("perplexity_interval")
    against = run.metric("loss_against")["best_single"]
    names = sorted(held, key=lambda name: held[name])
    rows = [
        {
            "route": name,
            "perplexity": held[name],
            "perplexity_low": ends[name][0],
            "perplexity_high": ends[name][1],
            "loss": run.metric("loss")[name],
            "loss_against_best_single": against[name]["mean"] if name in against else 0.0,
            "against_low": against[name]["interval"][0] if name in against else 0.0,
            "against_high": against[name]["interval"][1] if name in against else 0.0,
        }
        for name in names
    ]
    return pd.DataFrame(rows)


def _confusion(run: RunFolder) -> pd.DataFrame:
    arrays = run.arrays("routing")
    names = arrays["names"].tolist()
    pick = arrays["picks"][arrays["routers"].tolist().index("joint")]
    counts = np.zeros((len(names), len(names)), dtype=int)
    np.add.at(counts, (arrays["home"], pick), 1)
    return pd.DataFrame({"domain": names} | {name: counts[:, place] for place, name in enumerate(names)})


def _said(frame: pd.DataFrame, name: str, value: str) -> str:
    return ", ".join(f"{a} {b:.3g}" for a, b in zip(frame[name], frame[value], strict=True)) + "."
