"""Continual learning: what is forgotten along chosen orders of tasks and along random ones."""

import pandas as pd

from analysis.caption import caption
from analysis.figures import dots, forgetting_scatter
from analysis.load import RunFolder
from analysis.presentation import Figure, Presentation, Table
from analysis.tables import markdown

METRICS = (
    "forgetting.joint",
    "forgetting.joint_most",
    "forgetting.random",
    "forgetting_against_random.joint.mean",
    "share_better.joint",
    "spearman.joint",
    "final_loss.joint",
    "final_loss.random",
    "learned",
)


def present(run: RunFolder) -> Presentation:
    """Tables, figures and a summary of a run over orders of tasks.

    Args:
        run: a finished run.

    Returns:
        What to show.
    """
    line = caption(run)
    orders, correlation = _orders(run), _correlation(run)
    tables = [
        Table(
            "orders",
            "Forgetting and loss at the end, in nats per token, by what chose the order; intervals over "
            "held-out windows and random orders",
            orders,
        ),
        Table(
            "correlation",
            "Spearman correlation of predicted interference with forgetting over the random orders",
            correlation,
        ),
        Table("forgetting", "Every order that was trained along", _every_order(run)),
    ]
    said = ", ".join(f"{a} {b:.3g}" for a, b in zip(orders["order by"], orders["forgetting"], strict=True))
    rho = run.metric("spearman.joint")
    figures = [
        Figure(
            "forgetting",
            "Forgetting by what chose the order",
            f"Dots of forgetting with intervals: {said}.",
            lambda: dots.draw(
                orders, "order by", "forgetting", "forgetting in nats per token; the less the better", line
            ),
        ),
        Figure(
            "forgetting_against_prediction",
            "Forgetting of every random order against the interference that the joint alignment predicts",
            f"Scatter of {run.metric('random_orders.count')} random orders; Spearman {rho:.2f}.",
            lambda: forgetting_scatter.draw(run, line),
        ),
    ]
    text = f"{run.job}: {line}\n\n{markdown(orders.drop(columns='tasks'))}\n{markdown(correlation)}"
    return Presentation(text, tables, figures)


def _orders(run: RunFolder) -> pd.DataFrame:
    held = run.metric("forgetting")
    rows = []
    for name in sorted(held, key=lambda name: held[name]):
        low, high = run.metric("forgetting_interval")[name]
        row = {"order by": name, "forgetting": held[name], "forgetting_low": low, "forgetting_high": high}
        against = run.metric("forgetting_against_random").get(name)
        ends = against["interval"] if against else [0.0, 0.0]
        row |= {"against_random": against["mean"] if against else 0.0}
        row |= {"against_random_low": ends[0], "against_random_high": ends[1]}
        row |= {"share_of_random_better": run.metric("share_better").get(name, "not computed")}
        row |= {"final_loss": run.metric("final_loss")[name]}
        rows.append(row | {"tasks": " ".join(run.metric("order").get(name, ["random"]))})
    return pd.DataFrame(rows)


def _correlation(run: RunFolder) -> pd.DataFrame:
    held, ends = run.metric("spearman"), run.metric("spearman_interval")
    return pd.DataFrame({
        "score": list(held),
        "spearman": list(held.values()),
        "low": [ends[name][0] for name in held],
        "high": [ends[name][1] for name in held],
    })


def _every_order(run: RunFolder) -> pd.DataFrame:
    arrays = run.arrays("continual")
    names = arrays["names"]
    change = (arrays["final"] - arrays["after"]).mean(axis=-1)  # (O, T)
    drawn = set(arrays["drawn"].tolist())
    return pd.DataFrame([
        {
            "order": " ".join(names[order]),
            "random": place in drawn,
            "forgetting": change[place, order[:-1]].mean(),
            "final_loss": arrays["final"][place].mean(),
        }
        for place, order in enumerate(arrays["orders"])
    ])
