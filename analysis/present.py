"""Make a run's tables and figures from its files."""

from pathlib import Path

from analysis import jobs, style, tables
from analysis.caption import caption
from analysis.load import RunFolder


def present(folder: str | Path) -> str:
    """Write ``tables/*.{csv,md}`` and ``figures/*.{png,pdf}`` into a finished run's folder.

    Args:
        folder: the run folder.

    Returns:
        The summary that a terminal shows.

    Raises:
        AnalysisError: no finished run, an incomplete one, or a job that nothing shows.
    """
    run = RunFolder.open(folder)
    shown = jobs.find(run.job).present(run)
    for table in shown.tables:
        tables.write(table, run.path / "tables", note=caption(run))
    for figure in shown.figures:
        (run.path / "figures").mkdir(exist_ok=True)
        with style.theme():
            drawing = figure.draw()
            for kind in ("png", "pdf"):
                style.save(drawing, run.path / "figures" / f"{figure.name}.{kind}", kind)
    return str(shown.summary)
