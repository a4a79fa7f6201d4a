"""Cost: time over the model's and over other ways, growth with size, memory and bytes."""

from typing import Any

import pandas as pd

from analysis.caption import caption
from analysis.errors import AnalysisError
from analysis.figures import cost_curve, growth
from analysis.load import RunFolder
from analysis.lookup import MISSING, look_up
from analysis.presentation import Figure, Presentation, Table
from analysis.tables import markdown

METRICS = (
    "exact_error_bytes",
    "signature_bytes",
    "overhead.smollm2.4096.median",
    "overhead.llama_head.median",
    "speedup.dense_rademacher.median",
    "speedup.full_srht.median",
)
COLUMNS = ("method", "error_dim", "seconds_per_token", "bytes_per_task")
# Dotted key into the metrics, what it is, and the goal that it is held to: (at most | at least, number).
RATIOS: tuple[tuple[str, str, tuple[str, float] | None], ...] = (
    ("overhead.smollm2.4096", "sketch work / forward pass, m = 4,096", ("at most", 0.10)),
    ("overhead.smollm2.16384", "sketch work / forward pass, m = 16,384", ("at most", 0.20)),
    ("overhead.smollm2.32768", "sketch work / forward pass, m = 32,768", None),
    ("overhead.stream.4096", "forward and sketch in one / forward pass, m = 4,096", None),
    ("overhead.llama_head", "sketch work / product of the large head, m = 4,096", ("at most", 0.05)),
    ("overhead.llama_head_batches.128", "sketch work / product of the large head, m = 4,096", None),
    ("speedup.dense_rademacher", "dense / block projection, error side", ("at least", 50.0)),
    ("speedup.full_srht", "full transform / block projection, error side", ("at least", 4.0)),
    ("speedup.update.dense_rademacher", "dense / block projection, whole update", None),
    ("speedup.update.full_srht", "full transform / block projection, whole update", None),
    (
        "speedup.exact_gram.K49152_T100_n2000",
        "exact / sketch, T = 100, n = 2,000, K = 49,152",
        ("at least", 89.0),
    ),
)
# Array files that are tables as they stand; a run measures the parts that its settings name.
TABLES = {
    "exact": "Exact alignment against the sketch: seconds of both and their ratio, scaled by count as said",
    "growth": "Seconds of an update as one size grows",
    "storage": "Bytes of a task: while streaming, of the joint payload, of the file and of its header",
    "peers": "Other libraries on the same tokens: seconds a token, and which moment of the gradient it is of",
}


def present(run: RunFolder) -> Presentation:
    """Tables and figures of the parts that a run measured.

    Args:
        run: a finished run.

    Returns:
        What to show.
    """
    line = caption(run)
    tables, figures = [], []
    ratios = _ratios(run)
    if len(ratios):
        tables.append(Table("ratios", _title(run), ratios))
    for name, title in TABLES.items():
        if run.has_arrays(name):
            tables.append(Table(name, title, pd.DataFrame(run.arrays(name))))
    if run.has_arrays("growth"):
        frame = pd.DataFrame(run.arrays("growth"))
        powers: dict[str, float] = run.metric("growth.exponents")
        said = ", ".join(f"{axis} {power:.2f}" for axis, power in powers.items())
        tables.append(Table("exponents", "Fitted powers: seconds grow as the size to it", _powers(powers)))
        figures.append(
            Figure(
                "growth",
                "Seconds of an update against samples, sizes and features",
                f"Four panels, both axes logarithmic. Fitted powers: {said}.",
                lambda: growth.draw(frame, powers, line),
            )
        )
    if run.has_arrays("cost"):
        table, figure = _methods(run, line)
        tables.append(table)
        figures.append(figure)
    text = "\n".join(f"{table.title}\n\n{markdown(table.frame)}" for table in tables)
    return Presentation(f"{run.job}: {line}\n\n{text}", tables, figures)


def _ratios(run: RunFolder) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    for key, what, goal in RATIOS:
        held = look_up(run.metrics, key)
        if held is MISSING:
            continue
        batch = f", batch {held['batch']}" if "batch" in held else ""
        row: dict[str, Any] = {"ratio": what + batch} | {
            name: held[name] for name in ("median", "min", "max")
        }
        row |= {"goal": "", "met": ""}
        if goal is not None:
            word, bound = goal
            met = held["median"] <= bound if word == "at most" else held["median"] >= bound
            row |= {"goal": f"{word} {bound:g}", "met": "yes" if met else "no"}
        rows.append(row)
    peak = look_up(run.metrics, "memory.ratio")
    if peak is not MISSING:
        row = {
            "ratio": "peak memory of the longest / shortest stream",
            "median": peak,
            "min": peak,
            "max": peak,
        }
        rows.append(row | {"goal": "at most 1.05", "met": "yes" if peak <= 1.05 else "no"})
    return pd.DataFrame(rows)


def _title(run: RunFolder) -> str:
    held = run.metrics
    kernels = "on" if held.get("fast_float32") else "off"
    return (
        f"Ratios over {held.get('repeats')} turns, {held.get('clock')}, {held.get('threads')} thread(s), "
        f"faster float32 kernels {kernels} on both sides; GPU: {held.get('cuda')}"
    )


def _powers(powers: dict[str, float]) -> pd.DataFrame:
    return pd.DataFrame({"size": list(powers), "power": list(powers.values())})


def _methods(run: RunFolder, line: str) -> tuple[Table, Figure]:
    """The table and figure of ``arrays/cost.npz``: one entry for each method and output size.

    Args:
        run: a finished run.
        line: its caption.

    Returns:
        Both.

    Raises:
        AnalysisError: the array file lacks one of `COLUMNS`.
    """
    stored = run.arrays("cost")
    missing = [column for column in COLUMNS if column not in stored]
    if missing:
        raise AnalysisError(f"{run.path}/arrays/cost.npz: lacks {', '.join(missing)}")
    frame = pd.DataFrame({column: stored[column] for column in COLUMNS})
    largest = frame[frame["error_dim"] == frame["error_dim"].max()].dropna(subset=["seconds_per_token"])
    said = ", ".join(f"{row.method} {1e3 * row.seconds_per_token:.3g} ms" for row in largest.itertuples())
    figure = Figure(
        "cost_against_vocabulary",
        "Time a token of the errors' projection and memory a task against the output size",
        f"Curves of time and memory; at K = {frame['error_dim'].max():,}: {said}.",
        lambda: cost_curve.draw(frame, line),
    )
    return Table("cost", "Cost of each method; seconds a token and bytes a task", frame), figure
