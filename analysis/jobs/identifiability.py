"""Identifiability: the witness, the identity, the dial over label overlap, and separability."""

from typing import Any

import pandas as pd

from analysis.caption import caption
from analysis.figures import overlap_dial
from analysis.load import RunFolder
from analysis.presentation import Figure, Presentation, Table
from analysis.tables import markdown

METRICS = (
    "identity.max_error",
    "witness.joint",
    "witness.cka",
    "witness.joint_full",
    "witness.mass.share_mass",
    "separability.gap",
    "separability.null",
)
REPRESENTATIONS = ("cka", "cka_debiased", "rsa", "svcca")
FACTORS = ("joint", "activation", "error", "coupling")


def present(run: RunFolder) -> Presentation:
    """Tables, a figure and a summary of the checks.

    Args:
        run: a finished run.

    Returns:
        What to show.
    """
    line = caption(run)
    tables = [
        Table("identity", "Theorem 4.2 in float64: largest errors over random tasks", _identity(run)),
        Table(
            "witness",
            "Theorem 3.2: tasks with the same inputs and representations and disjoint label sets",
            _witness(run),
        ),
        Table(
            "shared_mass",
            "Where the full softmax's alignment of the witness comes from: shares of <F_i, F_j>",
            _mass(run),
        ),
        Table(
            "dial",
            "Label overlap from 0 to 1, representations fixed; means over texts and relabellings",
            _dial(run),
        ),
        Table(
            "separability",
            "Separability gap against errors permuted within the task (95 % quantile)",
            _separability(run),
        ),
    ]
    figure = Figure(
        "overlap_dial",
        "Joint alignment rises with label overlap; no representation metric moves",
        _in_words(run),
        lambda: overlap_dial.draw(run, line),
    )
    shown = "\n".join(f"{table.title}\n\n{markdown(table.frame)}" for table in tables[:3])
    return Presentation(f"{run.job}: {line}\n\n{shown}\n{_in_words(run)}", tables, [figure])


def _identity(run: RunFolder) -> pd.DataFrame:
    found = run.metric("identity")
    rows = {
        "cos(F_i, F_j) against kernel mean embeddings": found["max_error"],
        "S_ae against S_a S_e rho": found["factorisation_error"],
        "S_a, S_e and rho, two routes": found["factor_error"],
    }
    pairs = {"pairs": found["pairs"], "samples": found["samples"]}
    return pd.DataFrame([{"identity": name, "max_error": value, **pairs} for name, value in rows.items()])


def _witness(run: RunFolder) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    texts = run.metric("witness.by_domain") | {"random (no model)": run.metric("witness.random")}
    for text, found in texts.items():
        for softmax in ("restricted", "full"):
            for route, pair in found[softmax].items():
                row = {"text": text, "softmax": softmax, "route": route}
                row |= {name: pair[name] for name in FACTORS}
                row |= {"stderr_sketch": pair.get("stderr_sketch", 0.0)}
                rows.append(row | {name: found[name] for name in REPRESENTATIONS})
    return pd.DataFrame(rows)


def _mass(run: RunFolder) -> pd.DataFrame:
    texts = run.metric("witness.by_domain") | {"random (no model)": run.metric("witness.random")}
    return pd.DataFrame([{"text": text, **found["mass"]} for text, found in texts.items()])


def _dial(run: RunFolder) -> pd.DataFrame:
    dial, stored = run.metric("dial"), run.arrays("dial_representations")
    frame = pd.DataFrame({"label_overlap": dial["overlaps"], "token_overlap": dial["token_overlap"]})
    for softmax in overlap_dial.PANELS:
        frame[f"joint_{softmax}"] = dial[softmax]["joint"]
        low, high = zip(*dial[softmax]["joint_interval"], strict=True)
        frame[f"joint_{softmax}_low"], frame[f"joint_{softmax}_high"] = low, high
        frame[f"error_{softmax}"] = dial[softmax]["error"]
        frame[f"activation_{softmax}"] = dial[softmax]["activation"]
    for name in REPRESENTATIONS:
        frame[name] = stored[name].mean(axis=0)
    return frame


def _separability(run: RunFolder) -> pd.DataFrame:
    found = run.metric("separability")
    rows = [{"text": text, **row} for text, row in found["by_domain"].items()]
    return pd.DataFrame([*rows, {"text": "all", **{name: found[name] for name in rows[0] if name != "text"}}])


def _in_words(run: RunFolder) -> str:
    dial = run.metric("dial")
    low, high = dial["representation_min"], dial["representation_max"]
    said = [
        f"joint alignment goes from {dial[kind]['joint'][0]:.3f} to {dial[kind]['joint'][-1]:.3f} "
        f"under the {kind} softmax"
        for kind in overlap_dial.PANELS
    ]
    return (
        f"Label overlap from {dial['overlaps'][0]:g} to {dial['overlaps'][-1]:g}: {' and '.join(said)}; all "
        f"representation metrics stay between {low:.9f} and {high:.9f}."
    )
