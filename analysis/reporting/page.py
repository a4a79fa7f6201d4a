"""Lay out a report as one HTML page that needs nothing beside it."""

import base64
import re
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.presentation import Figure, Table
from analysis.reporting.content import Content, Section
from analysis.reporting.pictures import Files
from analysis.tables import numeric, shown

HERE = Path(__file__).parent
LONG = 24  # rows; a longer table is folded
_CLASS = {True: ' class="number"', False: ""}


def page(content: Content, pictures: dict[str, Files], title: str, lead: str) -> str:
    """The page.

    Args:
        content: what to show.
        pictures: every figure's files, by its name.
        title: its heading.
        lead: a paragraph under it, as text.

    Returns:
        HTML with style, script and figures inside.
    """
    css, script = ((HERE / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    links = "".join(f'<li><a href="#{s.anchor}">{escape(s.title)}</a></li>' for s in content.sections)
    tally = "".join(
        f'<li><strong class="{_css(verdict)}">{count}</strong>{escape(verdict)}</li>'
        for verdict, count in content.tally.items()
    )
    return "\n".join([
        "<!doctype html>",
        '<html lang="en">',
        '<head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<link rel="icon" href="data:,">',
        f"<title>{escape(title)}</title>",
        f"<style>\n{css}</style></head>",
        f"<body><header><h1>{escape(title)}</h1><p>{escape(lead)}</p>",
        f'<ul class="tally" aria-label="Claims by verdict">{tally}</ul></header>',
        f'<nav aria-label="Sections"><ul>{links}</ul></nav>',
        "<main>",
        *(_section(section, pictures) for section in content.sections),
        "</main>",
        f"<script>\n{script}</script>",
        "</body></html>",
        "",
    ])


def _section(section: Section, pictures: dict[str, Files]) -> str:
    parts = [f'<section id="{section.anchor}"><h2>{escape(section.title)}</h2>']
    parts.append(f'<p class="note">{escape(section.note)}</p>')
    if section.text:
        parts.append(f"<p>{escape(section.text)}</p>")
    if section.figures:
        parts.append(
            '<div class="figures">'
            + "".join(_figure(f, pictures[f.name]) for f in section.figures)
            + "</div>"
        )
    parts += [_claims(t) if t.name == "claims" else _table(t) for t in section.tables]
    return "\n".join([*parts, "</section>"])


def _figure(figure: Figure, files: Files) -> str:
    light, dark = (
        f"data:image/png;base64,{base64.b64encode(files[kind]).decode()}" for kind in ("png", "dark")
    )
    dark = f'<source media="(prefers-color-scheme: dark)" srcset="{dark}">'
    light = f'<img src="{light}" alt="{escape(figure.alternative, quote=True)}">'
    links = ", ".join(f'<a href="figures/{figure.name}.{kind}">{kind.upper()}</a>' for kind in ("pdf", "png"))
    caption = f"<figcaption>{escape(figure.title)} ({links})</figcaption>"
    picture = f'<div class="picture" tabindex="0"><picture>{dark}{light}</picture></div>'
    return f"<figure>{picture}{caption}</figure>"


def _table(table: Table) -> str:
    right = [numeric(table.frame.iloc[:, i]) for i in range(table.frame.shape[1])]
    rows = []
    for row in table.frame.astype(object).itertuples(index=False, name=None):
        rows.append("<tr>" + "".join(map(_cell, row, right)) + "</tr>")
    framed = _frame(table, [str(column).replace("_", " ") for column in table.frame.columns], rows, right)
    if len(rows) <= LONG:
        return f"<h3>{escape(table.title)}</h3>{_files(table)}{framed}"
    fold = f"<details><summary>{len(rows)} rows</summary>{framed}</details>"
    return f"<h3>{escape(table.title)}</h3>{_files(table)}{fold}"


def _claims(table: Table) -> str:
    rows = []
    for _, row in table.frame.iterrows():
        ours = row["ours"]
        if row["low"] not in ("not computed", "not run"):
            ours += f" [{row['low']}, {row['high']}]"
        beside = "" if row["beside"] in ("none", "not run") else f"beside: {row['beside']}"
        gap = "" if row["gap"] == "none" else row["gap"]
        cells = [
            ("Claim", _small(row["claim"], row["rule"])),
            ("Paper", _small(row["paper"], f"model: {row['paper_model']}")),
            ("Ours", _small(ours, row["metric"], beside)),
            ("Model", escape(row["model"])),
            ("Data", escape(row["data"])),
            ("n", escape(row["n"])),
            (
                "Verdict",
                f'<span class="verdict {_css(row["verdict"])}">{row["verdict"]}</span>' + _small("", gap),
            ),
            ("Run folder", escape(row["run"])),
        ]
        rows.append(
            "<tr>" + "".join(f'<td data-label="{name}">{cell}</td>' for name, cell in cells) + "</tr>"
        )
    names = ["Claim", "Paper", "Ours", "Model", "Data", "n", "Verdict", "Run folder"]
    return f"{_files(table)}{_frame(table, names, rows, [False] * len(names))}"


def _frame(table: Table, names: list[str], rows: list[str], right: list[bool]) -> str:
    head = "".join(
        f'<th scope="col"{_CLASS[flag]}><button type="button">{escape(name)}</button></th>'
        for name, flag in zip(names, right, strict=True)
    )
    label = escape(table.title, quote=True)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{label}"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>\n" + "\n".join(rows) + "\n</tbody></table></div>"
    )


def _files(table: Table) -> str:
    links = (f'<a href="tables/{table.name}.{kind}">{kind}</a>' for kind in ("csv", "md", "tex"))
    return f'<p class="note">Files: {", ".join(links)}</p>'


def _cell(value: Any, right: bool) -> str:
    is_number = (
        isinstance(value, (int, float, np.number)) and not isinstance(value, bool) and not pd.isna(value)
    )
    key = f' data-sort="{float(value)!r}"' if is_number else ""
    return f"<td{_CLASS[right]}{key}>{escape(shown(value))}</td>"


def _small(text: str, *below: str) -> str:
    return escape(text) + "".join(f"<small>{_breakable(line)}</small>" for line in below if line)


def _breakable(text: str) -> str:
    # A line may break after the dots and underscores of a key.
    return re.sub(r"([a-z0-9])([._])(?=[a-z])", r"\1\2<wbr>", escape(text))


def _css(verdict: str) -> str:
    return verdict.replace(" ", "-")
