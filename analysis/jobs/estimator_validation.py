"""Estimator validation: agreement of the sketch with the exact alignment, payloads and speed."""

from typing import Any

import numpy as np
import pandas as pd

from analysis.caption import caption
from analysis.figures import sketch_accuracy, sketch_scatter
from analysis.load import RunFolder
from analysis.presentation import Figure, Presentation, Table
from analysis.scores import UNITS, scores
from analysis.tables import markdown, number

METRICS = (
    "sketch.spearman_joint",
    "sketch.spearman_coupling",
    "sketch.rmse_joint",
    "sketch.spearman_delta",
    "payload.int4.spearman_joint",
    "payload.int4.spearman_coupling",
    "speedup.ratio.gram.median",
    "speedup.ratio.materialized_pair.median",
)
MEASURES = ("joint", "activation", "error", "coupling", "delta")


def present(run: RunFolder) -> Presentation:
    """Tables and figures of a run.

    Args:
        run: a finished run.

    Returns:
        What to show.
    """
    line, metrics = caption(run), run.metrics
    stored = run.arrays("agreement")
    features = int(metrics["sketch"]["num_features"])
    main = _agreement_rows(metrics)
    speed = _speed(metrics["speedup"])
    tables = [
        Table(
            "agreement",
            "Sketch against exact at the full number of samples: mean over projection seeds, range over "
            "them, 95 % interval over tasks",
            main,
        ),
        Table(
            "grid",
            "Agreement for every number of features m and of samples n, mean over seeds",
            _grid(stored),
        ),
        Table("speed", "Seconds of given activations and errors, and times over the sketch's", speed),
        Table("class_map", "Tasks against copies with outputs in another order", _flat(metrics["class_map"])),
        Table("tasks", "The tasks and the model's accuracy on their held-out images", _tasks(run)),
    ]
    if run.has_arrays("transfer"):
        tables.append(
            Table(
                "scores", f"How well each score picks sources; {UNITS.replace('token', 'image')}", scores(run)
            )
        )
    said = ", ".join(
        f"{row.measure} {row.spearman:.3f}" for row in main.itertuples() if row.signature == "sketch"
    )
    figures = [
        Figure(
            "error_against_features",
            "Error of the sketch against the number of features",
            "Falling lines of RMSE against m, on logarithmic axes, beside the Gaussian reference.",
            lambda: sketch_accuracy.draw_error(stored, line),
        ),
        Figure(
            "spearman_against_samples",
            "Rank correlation with the exact alignment against the number of samples",
            f"Lines of Spearman against n for m = {features:,}; at the largest n: {said}.",
            lambda: sketch_accuracy.draw_samples(stored, line, features),
        ),
        Figure(
            "sketched_against_exact",
            "Sketched against exact joint alignment and coupling, one projection",
            f"Two scatter plots near the diagonal; Spearman {said}.",
            lambda: sketch_scatter.draw(run.arrays("alignments"), run.arrays("exact"), line),
        ),
    ]
    text = f"{run.job}: {line}\n\n{markdown(main)}\n{markdown(speed)}"
    return Presentation(text, tables, figures)


def _agreement_rows(metrics: dict[str, Any]) -> pd.DataFrame:
    sketches = {"sketch": metrics["sketch"]} | {
        f"payload {dtype}": values for dtype, values in metrics["payload"].items()
    }
    rows = []
    for name, values in sketches.items():
        for measure in MEASURES:
            row = {"signature": name, "m": values["num_features"], "bytes": values["signature_bytes"]}
            row["measure"] = measure
            for statistic in ("spearman", "pearson", "rmse"):
                key = f"{statistic}_{measure}"
                row[statistic] = number(values[key])
                low, high = values[f"{key}_range"]
                row[f"{statistic}_min"], row[f"{statistic}_max"] = number(low), number(high)
            low, high = values[f"spearman_{measure}_interval"]
            row["spearman_low"], row["spearman_high"] = number(low), number(high)
            rows.append(row)
    return pd.DataFrame(rows)


def _grid(stored: dict[str, np.ndarray]) -> pd.DataFrame:
    rows = []
    for i, m in enumerate(stored["features"]):
        for j, n in enumerate(stored["samples"]):
            for measure in stored["measures"]:
                row = {"m": int(m), "n": int(n), "measure": str(measure)}
                for statistic in stored["statistics"]:
                    values = sketch_accuracy.select(stored, measure, statistic)[i, j]
                    row[str(statistic)] = float(values.mean())
                rows.append(row)
    return pd.DataFrame(rows)


def _speed(speedup: dict[str, Any]) -> pd.DataFrame:
    rows = []
    for name, seconds in speedup["seconds"].items():
        ratio = speedup["ratio"].get(name)
        rows.append({
            "method": name,
            "tasks": 2 if name.endswith("_pair") else speedup["tasks"],
            **{f"seconds_{end}": seconds[end] for end in ("median", "min", "max")},
            **{f"ratio_{end}": 1.0 if ratio is None else ratio[end] for end in ("median", "min", "max")},
        })
    return pd.DataFrame(rows)


def _flat(values: dict[str, Any]) -> pd.DataFrame:
    return pd.DataFrame([{"measure": key, "value": number(value)} for key, value in sorted(values.items())])


def _tasks(run: RunFolder) -> pd.DataFrame:
    metrics, exact = run.metrics, run.arrays("exact")
    frame = pd.DataFrame({"task": exact["names"], "group": exact["groups"]})
    frame["source"] = [metrics["sources"][name] for name in frame["task"]]
    frame["accuracy"] = [number(metrics["accuracy"].get(name)) for name in frame["task"]]
    frame["separability_gap"] = exact["separability_gap"]
    return frame
