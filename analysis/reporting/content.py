"""The content of a report, before it is laid out: claims, gaps, and a section for each result."""

import re
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from analysis import jobs
from analysis.caption import caption, data_of, model_of, samples_of
from analysis.claims import VERDICTS, Claim, judge, read_claims
from analysis.errors import AnalysisError
from analysis.load import RunFolder
from analysis.presentation import Figure, Table
from analysis.reporting import across
from analysis.reporting.gather import Records
from analysis.tables import shown


@dataclass
class Section:
    """One part of the report.

    Attributes:
        anchor: name for links and files.
        title: heading.
        note: what it was made from.
        text: a paragraph, or nothing.
        tables: to show and to write.
        figures: to draw.
    """

    anchor: str
    title: str
    note: str
    text: str = ""
    tables: list[Table] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)


@dataclass(frozen=True)
class Content:
    """All of a report.

    Attributes:
        tally: number of claims of each verdict.
        sections: claims, gaps and runs first, then one for each result.
    """

    tally: dict[str, int]
    sections: list[Section]


def compose(records: Records) -> Content:
    """Lay out what the runs hold.

    Args:
        records: the store.

    Returns:
        The content. Nothing is computed here that a run does not hold.
    """
    frame = claims_table(records, read_claims())
    gaps = [{"claim": row["claim"], "gap": row["gap"]} for _, row in frame.iterrows() if row["gap"] != "none"]
    sections = []
    for run in records.chosen:
        try:
            sections.append(_result(records, run))
        except AnalysisError as error:
            gaps.append({"claim": f"section {_title(run)}", "gap": str(error)})
    first = [
        Section(
            "claims",
            "The paper's claims and our runs",
            "Each row is a claim and a run; the rule says when a verdict is given. Runs differ from the "
            "paper's in model and data, which the row names.",
            tables=[Table("claims", "Claims of the paper, and verdicts from our runs", frame)],
        ),
        Section(
            "gaps",
            "What is missing",
            "No claim below has a verdict from a run.",
            text="" if gaps else "Nothing: every claim has a run that speaks about it.",
            tables=[Table("gaps", "Missing runs and numbers", pd.DataFrame(gaps))] if gaps else [],
        ),
    ]
    last = Section(
        "runs",
        "Runs",
        "Every run of the store. Smoke runs check the machinery and are never results.",
        tables=[Table("runs", "Runs and their use", records.table())],
    )
    tally = {verdict: int((frame["verdict"] == verdict).sum()) for verdict in VERDICTS}
    return Content(tally, [*first, *sections, last])


def claims_table(records: Records, claims: list[Claim]) -> pd.DataFrame:
    """The claims, each with what every result of its job says.

    Args:
        records: the store.
        claims: the claims.

    Returns:
        One row for each claim and run, or for a claim without one.
    """
    rows = []
    for claim in claims:
        said = "; ".join(map(str, claim.paper)) or "no number"
        models = ", ".join(dict.fromkeys(number.model for number in claim.paper)) or "not named"
        head = {"claim": claim.claim, "paper": said, "paper_model": models}
        runs = records.of(claim.job, claim.data)
        for run in runs:
            finding = judge(claim, run)
            rows.append(
                head
                | {"ours": finding.value, "low": finding.low, "high": finding.high, "metric": claim.value}
                | {
                    "beside": finding.beside,
                    "model": model_of(run),
                    "data": data_of(run),
                    "n": samples_of(run),
                }
                | {"verdict": finding.verdict, "run": records.name(run), "gap": finding.gap or "none"}
                | {"rule": claim.rule}
            )
        if not runs:
            blank = dict.fromkeys(("ours", "low", "high"), "not run") | {"metric": claim.value}
            blank |= dict.fromkeys(("beside", "model", "data", "n", "verdict", "run"), "not run")
            rows.append(head | blank | {"gap": records.why_none(claim.job, claim.data), "rule": claim.rule})
    return pd.DataFrame(rows)


def _result(records: Records, run: RunFolder) -> Section:
    anchor = slug(f"{run.job}-{model_of(run)}-{data_of(run)}")
    section = Section(anchor, _title(run), f"{caption(run)} Run folder {records.name(run)}.")
    section.text = str(run.metrics.get("note") or "")
    if run.job in jobs.names():
        made = jobs.find(run.job).present(run)
        section.tables, section.figures = list(made.tables), list(made.figures)
    else:
        section.tables = [Table("metrics", f"All metrics of the run (job {run.job})", metrics_table(run))]
    siblings = records.siblings(run)
    if len(siblings) > 1:
        section.tables.append(across.settings_table(siblings, records.name))
        section.figures += across.figures(siblings, caption(run))
    section.tables = [Table(f"{anchor}-{t.name}", t.title, t.frame) for t in section.tables]
    section.figures = [Figure(f"{anchor}-{f.name}", f.title, f.alternative, f.draw) for f in section.figures]
    return section


def metrics_table(run: RunFolder) -> pd.DataFrame:
    """All metrics of a run.

    Args:
        run: the run.

    Returns:
        Two columns, the dotted key and the value.
    """
    rows: list[dict[str, Any]] = []

    def walk(value: Any, key: str) -> None:
        if isinstance(value, dict) and value:
            for name in sorted(value):
                walk(value[name], f"{key}.{name}" if key else str(name))
        else:
            rows.append({"metric": key, "value": shown(str(value) if isinstance(value, dict) else value)})

    walk(run.metrics, "")
    return pd.DataFrame(rows, columns=["metric", "value"])


def slug(text: str) -> str:
    """A name for files and links.

    Args:
        text: any text.

    Returns:
        Lower-case letters, digits, ``_``, ``.`` and ``-``.

    >>> slug("Source selection (12 domains)")
    'source-selection-12-domains'
    """
    return re.sub(r"[^a-z0-9._]+", "-", text.lower()).strip("-.")


def _title(run: RunFolder) -> str:
    return f"{run.job.replace('_', ' ').capitalize()}: {model_of(run)}, {data_of(run)}"
