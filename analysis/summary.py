"""The text that a source-selection run prints: ranked sources first, then how far to trust them."""

from analysis.caption import caption
from analysis.load import RunFolder
from analysis.pairs import Pairs
from analysis.scores import MAIN, scores, sketch_against_exact
from analysis.tables import shown

MOST_SOURCES = 3  # sources shown for each target; tables/ranking.csv holds all


def summary(run: RunFolder, pairs: Pairs) -> str:
    """Ranked sources with their factors, the score table, the sketch against the exact value and the note.

    Args:
        run: the run.
        pairs: its alignments and gains.

    Returns:
        Lines for a terminal.
    """
    about = f"{run.job}: {caption(run)}\njoint +- its standard error from {pairs.stderr_of}"
    blocks = [about, _ranked(pairs)]
    if pairs.gain is not None:
        blocks.append("Scores (regret in nats per token; [interval] over targets)\n" + _scores(run))
    else:
        blocks.append("Transfer was not run: no gains and no scores.")
    blocks.append(_sketch(run))
    if run.metrics.get("note"):
        blocks.append(f"Note: {run.metrics['note']}")
    return "\n\n".join(block for block in blocks if block)


def _ranked(pairs: Pairs) -> str:
    head = ["target", "rank", "source", "joint", "activation", "error", "coupling"]
    gains = pairs.gain
    if gains is not None:
        head += ["gain (nats/token)", "best source"]
    rows = [head]
    for target, name in enumerate(pairs.names):
        for rank, source in enumerate(pairs.order(target)[:MOST_SOURCES], start=1):
            at = (source, target)
            values = pairs.alignment
            row = [name if rank == 1 else "", str(rank), pairs.names[source]]
            row += [f"{values['joint'][at]:.3f} +- {pairs.stderr[at]:.3f}"]
            row += [f"{values[key][at]:.3f}" for key in ("activation", "error", "coupling")]
            if gains is not None:
                best = pairs.best(target)
                first = rank == 1 and best is not None
                row += [f"{gains[at]:+.4f}"]
                row += [
                    f"{pairs.names[best]} {gains[best, target]:+.4f}" if first and best is not None else ""
                ]
            rows.append(row)
    return columns(rows, left=(0, 2, 8))


def _scores(run: RunFolder) -> str:
    frame = scores(run)
    kept = [column for column in MAIN if column in frame]
    rows = [["estimator", *(column.replace("_", " ") for column in kept)]]
    for _, row in frame.iterrows():
        cells = [str(row["estimator"])]
        for column in kept:
            cell = _short(row[column])
            low = row.get(f"{column}_low")
            if isinstance(low, float):
                cell += f" [{_short(low)}, {_short(row[f'{column}_high'])}]"
            cells.append(cell)
        rows.append(cells)
    return columns(rows, left=(0,))


def _sketch(run: RunFolder) -> str:
    frame = sketch_against_exact(run)
    if frame.empty:
        return "Sketch against exact: not compared (estimator.exact_windows is 0)."
    parts = [f"{row.measure.replace('_', ' ')} {shown(row.value)}" for row in frame.itertuples()]
    return "Sketch against exact: " + ", ".join(parts) + "."


def _short(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def columns(rows: list[list[str]], left: tuple[int, ...]) -> str:
    """Lines with aligned columns.

    Args:
        rows: cells, the first row the heading.
        left: columns whose text stands to the left.

    Returns:
        The lines.
    """
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            c.ljust(w) if i in left else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
