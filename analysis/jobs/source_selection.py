"""Source selection: ranked sources, their scores against transfer, and the sketch against the exact value."""

import pandas as pd

from analysis.caption import caption
from analysis.figures import factors, gain_scatter, heatmap, regret_curve, task_map, top1_bars
from analysis.load import RunFolder
from analysis.pairs import FACTORS, Pairs, matrix, ranking, read_pairs
from analysis.presentation import Figure, Presentation, Table
from analysis.score_tables import score_tables
from analysis.scores import estimators, scores, sketch_against_exact
from analysis.summary import summary

METRICS = (
    "top1.joint",
    "top1.activation",
    "random_top1",
    "mean_regret.joint",
    "max_regret.joint",
    "mean_spearman.joint",
    "sketch.spearman_joint",
    "sketch.rmse_joint",
    "sketch.spearman_coupling",
    "sketch.signature_bytes",
)


def present(run: RunFolder) -> Presentation:
    """Tables, figures and summary of a source-selection run.

    Args:
        run: a finished run.

    Returns:
        What to show; scores and gains only where transfer was run.
    """
    pairs = read_pairs(run)
    line = caption(run)
    tables = [
        Table("ranking", "Ranked sources of every target; gain in nats per token", ranking(pairs)),
        Table("factors", "The factors of every pair: joint = activation x error x coupling", _factors(pairs)),
        Table("domains", "The domains; separability gap is 0 where a and e are independent", _domains(pairs)),
    ]
    comparison = sketch_against_exact(run)
    if len(comparison):
        tables.append(
            Table("sketch_vs_exact", "The sketch against the exact alignment, same tokens", comparison)
        )
    if run.has_arrays("overlap"):
        tables.append(
            Table(
                "overlap",
                "Share of the target's held-out spans in the source's training text before dropping them",
                matrix(run.arrays("overlap")["overlap"], pairs),
            )
        )
    count = len(pairs.names)
    figures = [
        Figure(
            "alignment_heatmap",
            "Joint alignment of every pair, clustered by group",
            f"Heatmap of the joint alignment of {count} domains, sources down, targets across. "
            + _nearest(pairs),
            lambda: heatmap.draw(pairs, line),
        ),
        Figure(
            "factors",
            "What lowers the alignment of each pick: activations, errors or their coupling",
            "Stacked bars of -ln(activation), -ln(error) and -ln(coupling) of the picks.",
            lambda: factors.draw(pairs, line),
        ),
        Figure(
            "task_map",
            "Map of the domains: near means aligned",
            f"Scatter of {count} domains placed by classical scaling of 1 - joint, marked by group.",
            lambda: task_map.draw(pairs, line),
        ),
    ]
    if pairs.gain is not None:
        tables += [
            *score_tables(run),
            Table(
                "transfer_gain",
                "Transfer gain, source to target, in nats per token",
                matrix(pairs.gain, pairs),
            ),
        ]
        figures += [
            Figure(
                "alignment_against_gain",
                "Joint alignment against transfer gain, a panel for each target",
                f"Scatter plots for {count} targets: joint alignment across, gain in nats per token upwards. "
                f"The pick is the best source for {_hits(pairs)} of {count} targets.",
                lambda: gain_scatter.draw(pairs, line),
            ),
            Figure(
                "top1",
                "Top-1 of every estimator with its interval, and chance",
                "Bars of Top-1: " + _bars(run) + ".",
                lambda: top1_bars.draw(run, line),
            ),
            Figure(
                "regret",
                "Share of targets that each estimator serves within a given regret",
                f"Step curves over {count} targets. " + _regrets(run),
                lambda: regret_curve.draw(pairs, estimators(run), line),
            ),
        ]
    return Presentation(summary(run, pairs), tables, figures)


def _factors(pairs: Pairs) -> pd.DataFrame:
    rows = []
    for i, first in enumerate(pairs.names):
        for j in range(i + 1, len(pairs.names)):
            row = {"first": first, "second": pairs.names[j]}
            row |= {"first_group": pairs.groups[i], "second_group": pairs.groups[j]}
            row |= {key: pairs.alignment[key][i, j] for key in FACTORS}
            rows.append(row | {"stderr_sketch": pairs.alignment["stderr_sketch"][i, j]})
    return pd.DataFrame(rows)


def _domains(pairs: Pairs) -> pd.DataFrame:
    frame = pd.DataFrame({"domain": pairs.names, "group": pairs.groups, "n_tokens": pairs.n_tokens})
    frame["separability_gap"] = pairs.separability_gap
    frame["pick"] = [pairs.names[pairs.pick(j)] for j in range(len(pairs.names))]
    gain = pairs.gain
    if gain is None or pairs.base_loss is None:
        return frame
    frame["base_loss"] = pairs.base_loss
    frame["pick_gain"] = [gain[pairs.pick(j), j] for j in range(len(pairs.names))]
    best = [pairs.best(j) for j in range(len(pairs.names))]
    frame["best_source"] = [pairs.names[i] for i in best if i is not None]
    frame["best_gain"] = [gain[i, j] for j, i in enumerate(best)]
    return frame


def _nearest(pairs: Pairs) -> str:
    frame = _factors(pairs).dropna(subset=["joint"]).sort_values("joint", kind="stable")
    if frame.empty:
        return "No pair has a defined alignment."
    low, high = frame.iloc[0], frame.iloc[-1]
    return (
        f"Highest: {high['first']} and {high['second']}, {high['joint']:.2f}; "
        f"lowest: {low['first']} and {low['second']}, {low['joint']:.2f}."
    )


def _hits(pairs: Pairs) -> int:
    return sum(pairs.pick(j) == pairs.best(j) for j in range(len(pairs.names)))


def _bars(run: RunFolder) -> str:
    frame = scores(run)
    return ", ".join(
        f"{row.estimator} {row.top1:.2f}" for row in frame.itertuples() if isinstance(row.top1, float)
    )


def _regrets(run: RunFolder) -> str:
    held = run.metrics.get("mean_regret") or {}
    said = [f"{name} {held[name]:.4f}" for name in estimators(run) if held.get(name) is not None]
    return "Mean regret in nats per token: " + ", ".join(said) + "."
