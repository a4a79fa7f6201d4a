"""Selection among a user's own texts: the ranked sources, what they share with the target, and the noise."""

from typing import Any

import pandas as pd

from analysis.caption import caption
from analysis.figures import ranked_dots
from analysis.load import RunFolder
from analysis.presentation import Figure, Presentation, Table
from analysis.summary import columns

METRICS = ("ranking.0.source", "ranking.0.joint", "noise.difference", "noise.within_noise")
COLUMNS = [
    *("source", "joint", "stderr_sketch", "stderr_sampling", "activation", "error", "coupling"),
    *("coupling_is_clear", "words", "n_tokens", "shared_with_target", "path"),
]
_READING = """\
score     the joint Fisher alignment: 1 = fine-tuning on it moves the output head as on the target, 0 = in no
          way alike; +- one standard error, of the tokens read and of the sketch
words     how alike the contexts are (activation); mistakes: what the model gets wrong (error); places:
          whether the same mistakes come in the same contexts (coupling; unclear where noise hides it)
in words  same = in the top third of the range of these sources, other = in the bottom third"""


def present(run: RunFolder) -> Presentation:
    """A table, a figure and a summary that needs no other explanation.

    Args:
        run: a finished run.

    Returns:
        What to show.
    """
    rows: list[dict[str, Any]] = run.metric("ranking")
    frame = pd.DataFrame(rows, columns=COLUMNS)
    frame = frame.astype(dict.fromkeys(("joint", "stderr_sketch", "stderr_sampling"), float))
    frame.insert(0, "rank", range(1, len(frame) + 1))
    target, line = run.metric("target"), caption(run)
    figure = Figure(
        "ranked_sources",
        f"Sources for {target['name']}, best first",
        f"Dots of the score with error bars for {len(rows)} sources. "
        + "; ".join(f"{row['source']} {_number(row['joint'])}" for row in rows[:5])
        + ".",
        lambda: ranked_dots.draw(frame, target["name"], line),
    )
    table = Table("ranking", f"Sources for {target['name']}, best first", frame)
    return Presentation(_summary(run, rows), [table], [figure])


def _summary(run: RunFolder, rows: list[dict[str, Any]]) -> str:
    target, noise = run.metric("target"), run.metric("noise")
    model, tokens = run.metric("model"), f"{target['n_tokens']:,} tokens"
    blocks = [f"Sources for {target['name']} ({tokens}), best first; model {model}."]
    if run.smoke:
        blocks[0] = f"Smoke run, not a result. {blocks[0]}"
    shown = [["", "source", "score", "tokens", "words", "mistakes", "places", "in words"]]
    for rank, row in enumerate(rows, start=1):
        error = ranked_dots.total_error(row["stderr_sketch"], row["stderr_sampling"])
        shown.append([
            str(rank),
            row["source"],
            f"{_number(row['joint'])} +- {_number(error)}",
            f"{row['n_tokens']:,}",
            *(_number(row[name]) for name in ("activation", "error")),
            _number(row["coupling"]) if row["coupling_is_clear"] else "unclear",
            row["words"],
        ])
    blocks.append(columns(shown, left=(1, 7)))
    blocks.append(_READING)
    if any(row["stderr_sampling"] is None for row in rows):
        blocks.append("A signature from a library keeps no blocks: its error is the sketch's alone.")
    if noise is not None and not noise["within_noise"]:
        leads = f"leads {noise['next']} by {noise['difference']:.4f}, more than two standard errors"
        if noise["stderr_sampling"] is None:
            blocks.append(f"{noise['best']} {leads} of the sketch; that of the tokens is not known.")
        else:
            blocks.append(f"{noise['best']} is clearly the best: it {leads}.")
    blocks += [f"Warning: {line}." for line in run.metric("warnings")]
    left_out = run.metric("left_out")
    if left_out:
        lines = [f"  {one['source']}: {one['reason']}" for one in left_out]
        blocks.append("\n".join(["Left out", *lines]))
    blocks.append(f"More in {run.path}")
    return "\n\n".join(blocks)


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.3f}"
