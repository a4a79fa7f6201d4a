"""Inner layers and the whole network: what tracks it, alignment by depth, independence, and gains."""

import re
from typing import Any

import numpy as np
import pandas as pd

from analysis.caption import caption
from analysis.figures import by_depth
from analysis.load import RunFolder
from analysis.presentation import Figure, Presentation, Table
from analysis.scores import UNITS, scores
from analysis.tables import markdown, number

METRICS = (
    "spearman_head",
    "agreement.depth_diagonal.spearman",
    "agreement.network_sketch.spearman",
    "profile_cosine",
    "off_diagonal_discrepancy",
    "independence.rejected_at_5_percent",
)
_WHAT = {
    "linear_layers": "all linear layers, with what lies between them",
    "block_diagonal": "each parameter a block",
    "depth_diagonal": "each block of the network a block",
    "head": "the head alone",
    "network_sketch": "sketch of all linear layers, against their exact alignment",
    "head_sketch": "sketch of the head, against its exact alignment",
}


def present(run: RunFolder) -> Presentation:
    """Tables and figures of a run.

    Args:
        run: a finished run.

    Returns:
        What to show.
    """
    line = caption(run)
    layers = _layers(run)
    kinds = _kinds(layers)
    tables, figures, text = [], [], f"{run.job}: {line}\n"
    if "agreement" in run.metrics:
        agreement = _agreement(run.metrics)
        decomposition = _decomposition(run.metrics)
        tables += [
            Table(
                "agreement",
                "Approximations against the exact alignment of the whole network, over pairs of tasks; 95 % "
                "intervals over tasks",
                agreement,
            ),
            Table(
                "decomposition",
                "Profile cosine, off-diagonal discrepancy (share of the inner product between blocks) and "
                "the width of the bounds on the network's alignment, over pairs of tasks",
                decomposition,
            ),
        ]
        text += f"\n{markdown(agreement)}\n{markdown(decomposition)}"
    tables += [
        Table(
            "kinds",
            "Layers by kind: alignment within and between groups of tasks, and the separability gap "
            "against its 95 % quantile under permuted errors (medians over layers and tasks)",
            kinds,
        ),
        Table("layers", "Every layer, its alignments and its gap", layers),
    ]
    text += f"\n{markdown(kinds)}"
    figures += [
        Figure(
            "alignment_by_depth",
            "Alignment within groups of tasks minus that between groups, by depth",
            "Lines by kind of layer over depth. " + _said(kinds, "contrast"),
            lambda: by_depth.draw(layers, "contrast", "alignment within minus between groups", line),
        ),
        Figure(
            "independence_by_depth",
            "Separability gap delta by depth: 0 where activations and errors are independent",
            "Lines by kind of layer over depth. " + _said(kinds, "gap"),
            lambda: by_depth.draw(layers, "gap", "separability gap δ, median over tasks", line, 0.0),
        ),
    ]
    if run.has_arrays("layers_against_gains"):
        tables.append(Table("scores", f"How well each score picks sources; {UNITS}", scores(run)))
        chosen = _chosen(run.metrics["selected_layer"])
        tables.append(
            Table(
                "selected_layer",
                "The layer chosen on one half of the targets, on the other half, beside the whole network",
                chosen,
            )
        )
        network = run.metric("mean_spearman")["network_sketch"]
        figures.append(
            Figure(
                "gains_by_depth",
                "Rank correlation of each layer's alignment with measured gains, by depth",
                f"Lines by kind of layer over depth; all layers together {network:.2f}. "
                + _said(kinds, "spearman"),
                lambda: by_depth.draw(
                    layers, "spearman", "Spearman with gains, mean over targets", line, network
                ),
            )
        )
        text += f"\n{markdown(scores(run))}\n{markdown(chosen)}"
    return Presentation(text, tables, figures)


def _agreement(metrics: dict[str, Any]) -> pd.DataFrame:
    rows = []
    for name, values in metrics["agreement"].items():
        row: dict[str, Any] = {"approximation": name, "of": _WHAT[name]}
        for statistic in ("spearman", "pearson", "rmse"):
            row[statistic] = number(values[statistic])
            row[f"{statistic}_low"], row[f"{statistic}_high"] = map(number, values[f"{statistic}_interval"])
        rows.append(row)
    return pd.DataFrame(rows)


def _decomposition(metrics: dict[str, Any]) -> pd.DataFrame:
    rows = []
    for blocks in ("parameters", "depth"):
        values = metrics[f"decomposition_{blocks}"]
        row: dict[str, Any] = {"blocks": blocks}
        for name in ("profile_cosine", "discrepancy", "own_discrepancy"):
            row |= {name: values[name]["mean"]}
            row |= {f"{name}_{end}": values[name][end] for end in ("min", "max")}
        rows.append(row | {name: values[name] for name in ("bound_width", "bounds_held")})
    return pd.DataFrame(rows)


def _layers(run: RunFolder) -> pd.DataFrame:
    stored, gaps = run.arrays("layers"), run.arrays("independence")
    groups = stored["groups"]
    same = groups[:, None] == groups[None, :]
    above = np.triu(np.ones(same.shape, dtype=bool), 1)
    places = [_place(name) for name in stored["layers"].tolist()]
    delta = np.sqrt(np.clip(gaps["squared_gap"], 0, None))
    null = np.sqrt(np.clip(gaps["null_high"], 0, None))
    within, between = (
        [_mean(table[chosen & above]) for table in stored["alignments"]] for chosen in (same, ~same)
    )
    frame = pd.DataFrame({
        "layer": stored["layers"].tolist(),
        "depth": [depth for depth, _ in places],
        "kind": [kind for _, kind in places],
        "within_groups": within,
        "between_groups": between,
        "gap": np.median(delta, axis=1),
        "gap_min": delta.min(axis=1),
        "null_high": np.median(null, axis=1),
        "rejected": (gaps["p"] <= 0.05).mean(axis=1),
    })
    frame["contrast"] = frame["within_groups"] - frame["between_groups"]
    if run.has_arrays("layers_against_gains"):
        against = run.arrays("layers_against_gains")
        frame["spearman"] = against["spearman"]
        frame["spearman_low"], frame["spearman_high"] = against["spearman_interval"].T
        frame["top1"], frame["mean_regret"] = against["top1"], against["mean_regret"]
    return frame


def _place(name: str) -> tuple[float, str]:
    """Splits a layer's name.

    Returns:
        Depth of its block and its name within; NaN and the name outside of all blocks.
    """
    found = re.search(r"(?:^|\.)(\d+)\.(.+)$", name)
    return (float("nan"), name) if found is None else (float(found[1]), found[2])


def _kinds(layers: pd.DataFrame) -> pd.DataFrame:
    values = [
        name
        for name in (
            "within_groups",
            "between_groups",
            "contrast",
            "gap",
            "null_high",
            "rejected",
            "spearman",
        )
        if name in layers
    ]
    grouped = layers.groupby("kind", sort=False)
    frame = grouped[values].median()
    frame["rejected"] = grouped["rejected"].mean()
    frame.insert(0, "layers", grouped.size())
    return frame.reset_index()


def _chosen(values: dict[str, Any]) -> pd.DataFrame:
    rows = []
    for criterion in ("top1", "mean_regret"):
        of = values[f"by_{criterion}"]
        rows.append({
            "chosen_by": criterion,
            "layer": of["chosen"],
            "chosen_share": of["chosen_share"],
            "top1": of["top1"],
            "top1_network": of["top1_reference"],
            "mean_regret": of["mean_regret"],
            "mean_regret_network": of["mean_regret_reference"],
            "p_top1": of["p_top1_against_network"],
            "p_regret": of["p_regret_against_network"],
        })
    return pd.DataFrame(rows)


def _said(kinds: pd.DataFrame, value: str) -> str:
    return (
        "Medians: "
        + ", ".join(f"{a} {b:.2f}" for a, b in zip(kinds["kind"], kinds[value], strict=True))
        + "."
    )


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if values.size else float("nan")
