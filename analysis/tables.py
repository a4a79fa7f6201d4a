"""Write tables as CSV, Markdown and LaTeX, always the same bytes for the same rows."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.presentation import Table

UNDEFINED = "undefined"
_LATEX = {"&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}"}
_LATEX |= {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"}
_LATEX |= {"<": r"\textless{}", ">": r"\textgreater{}", "±": r"$\pm$", "×": r"$\times$"}


def shown(value: Any) -> str:
    """A cell as a person reads it.

    Args:
        value: a number, a text, None or a list of them.

    Returns:
        Whole numbers with thousands separated, other numbers with four significant digits, and
        ``undefined`` for a NaN or None.

    >>> shown(196608), shown(0.123456), shown(float("nan"))
    ('196,608', '0.1235', 'undefined')
    """
    if value is None or value is pd.NA:
        return UNDEFINED
    if isinstance(value, bool) or type(value).__name__ in ("bool", "bool_"):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(shown(part) for part in value) + "]"
    if isinstance(value, str):
        return " ".join(value.split())
    number = float(value)
    if math.isnan(number):
        return UNDEFINED
    if math.isinf(number):
        return "infinite" if number > 0 else "-infinite"
    if number == int(number) and abs(number) < 1e15:
        return f"{int(number):,}"
    if not 1e-4 <= abs(number) < 1e6:
        return f"{number:.3e}"
    if abs(number) < 1:
        return f"{number:.4f}" if abs(number) >= 0.01 else f"{number:#.3g}"
    return f"{number:#.4g}".rstrip(".")


def markdown(frame: pd.DataFrame) -> str:
    """A frame as a Markdown table, numbers to the right.

    Args:
        frame: the rows.

    Returns:
        Text that ends in a line break.
    """
    cells = [[str(name) for name in frame.columns]] + _cells(frame)
    cells = [[cell.replace("|", r"\|") for cell in row] for row in cells]
    right = [numeric(frame.iloc[:, i]) for i in range(frame.shape[1])]
    widths = [max(3, *(len(row[i]) for row in cells)) for i in range(frame.shape[1])]
    rule = [
        "-" * (width - 1) + ":" if flag else "-" * width for width, flag in zip(widths, right, strict=True)
    ]
    rows = [cells[0], rule, *cells[1:]]
    lines = []
    for row in rows:
        parts = zip(row, widths, right, strict=True)
        lines.append("| " + " | ".join(c.rjust(w) if r else c.ljust(w) for c, w, r in parts) + " |")
    return "\n".join(lines) + "\n"


def latex(table: Table) -> str:
    """A table for a paper (package booktabs).

    Args:
        table: what to write.

    Returns:
        A ``table`` environment with caption and label.
    """
    frame = table.frame
    columns = "".join("r" if numeric(frame.iloc[:, i]) else "l" for i in range(frame.shape[1]))
    rows = [" & ".join(map(_escape, row)) + r" \\" for row in _cells(frame)]
    head = " & ".join(_escape(str(name)) for name in frame.columns) + r" \\"
    return "\n".join([
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{_escape(table.title)}}}",
        rf"\label{{tab:{table.name.replace('_', '-')}}}",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        head,
        r"\midrule",
        *rows,
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
        "",
    ])


def write(table: Table, folder: Path, note: str = "", with_latex: bool = False) -> None:
    """Write one table as ``<name>.csv`` and ``<name>.md``, and ``<name>.tex`` where asked.

    Args:
        table: what to write.
        folder: where; made if missing.
        note: a line under the Markdown table: model, data, samples and seed.
        with_latex: also write the LaTeX file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    frame = table.frame.astype(object).map(_plain)
    frame.to_csv(folder / f"{table.name}.csv", index=False, lineterminator="\n")
    text = f"{table.title}\n\n{markdown(table.frame)}" + (f"\n{note}\n" if note else "")
    (folder / f"{table.name}.md").write_text(text, encoding="utf-8", newline="\n")
    if with_latex:
        (folder / f"{table.name}.tex").write_text(latex(table), encoding="utf-8", newline="\n")


def _cells(frame: pd.DataFrame) -> list[list[str]]:
    return [
        [shown(value) for value in row] for row in frame.astype(object).itertuples(index=False, name=None)
    ]


def _plain(value: Any) -> str:
    if isinstance(value, (float, np.floating)):
        return "nan" if math.isnan(value) else f"{value:.8g}"
    return str(value) if isinstance(value, (int, np.integer)) else shown(value)


def numeric(column: pd.Series) -> bool:
    """Whether a column holds numbers, and so stands to the right.

    Args:
        column: one column of a table.

    Returns:
        True when any of its cells is a number.
    """
    return any(isinstance(value, (int, float, np.number)) for value in column.astype(object))


def _escape(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in text)


def number(value: float | None) -> float:
    """A stored number, NaN where the run holds null for one that is undefined.

    Args:
        value: from ``metrics.json``.

    Returns:
        The number.
    """
    return float("nan") if value is None else float(value)
