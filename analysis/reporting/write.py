"""Write a report: one page, one Markdown file, and every table and figure as files."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from analysis import tables
from analysis.errors import AnalysisError
from analysis.reporting.content import Content, compose
from analysis.reporting.gather import gather
from analysis.reporting.page import page
from analysis.reporting.pictures import draw

TITLE = "fishersketch: what our runs say about the paper"
LEAD = (
    "The Geometry of Updates: Fisher Alignment at Vocabulary Scale (ICML 2026, arXiv:2606.27242) beside "
    "finished runs of this project. Every number comes from a run folder that the row names; a number of the "
    "paper marked inferred is our reading of it. Gains and regrets are in nats per token."
)
MARKER = "report.html"


def report(stores: Sequence[str | Path], out: str | Path) -> str:
    """Gather runs and lay them out.

    Args:
        stores: run stores, or folders of records of runs.
        out: folder for the report; a former report in it is replaced.

    Returns:
        What a terminal shows: the verdicts and where the page is.

    Raises:
        AnalysisError: no runs, or `out` holds something that is no report.
    """
    out = Path(out)
    held = gather(*stores)
    content = compose(held)
    pictures = {figure.name: draw(figure) for section in content.sections for figure in section.figures}
    text = page(content, pictures, TITLE, LEAD)
    _clear(out)
    for section in content.sections:
        for table in section.tables:
            tables.write(table, out / "tables", note=section.note, with_latex=True)
    for name, files in pictures.items():
        (out / "figures").mkdir(exist_ok=True)
        for kind in ("png", "pdf"):
            (out / "figures" / f"{name}.{kind}").write_bytes(files[kind])
    (out / "report.md").write_text(_markdown(content), encoding="utf-8", newline="\n")
    (out / "report.html").write_text(text, encoding="utf-8", newline="\n")
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in content.tally.items())
    return (
        f"{len(held.runs)} runs in {held.where}, {len(held.chosen)} shown as results.\n"
        f"Claims: {verdicts}.\nPage: {out / 'report.html'}"
    )


def _markdown(content: Content) -> str:
    tally = ", ".join(f"{count} {verdict}" for verdict, count in content.tally.items())
    lines = [f"# {TITLE}", "", LEAD, "", f"Claims: {tally}.", ""]
    for section in content.sections:
        lines += [f"## {section.title}", "", section.note, ""]
        lines += [section.text, ""] if section.text else []
        for figure in section.figures:
            lines += [f"![{figure.alternative}](figures/{figure.name}.png)", "", f"{figure.title}.", ""]
        for table in section.tables:
            lines += [f"### {table.title}", "", tables.markdown(table.frame)]
    return "\n".join(lines).rstrip("\n") + "\n"


def _clear(out: Path) -> None:
    if out.exists():
        if not out.is_dir() or (any(out.iterdir()) and not (out / MARKER).is_file()):
            raise AnalysisError(f"{out}: holds something that is no report; choose another --out")
        for name in ("tables", "figures"):
            shutil.rmtree(out / name, ignore_errors=True)
    out.mkdir(parents=True, exist_ok=True)
