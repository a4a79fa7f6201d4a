"""The command ``python -m analysis``."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from analysis.compare import compare
from analysis.errors import AnalysisError
from analysis.present import present
from analysis.record import record
from analysis.reporting import report
from analysis.sweep import sweep

DEFAULT_RECORDS = ("runs", "results")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand.

    Args:
        arguments: the words after ``python -m analysis``; by default those of the process.

    Returns:
        The exit status: 1 after a mistake of the user, which is named in one line.
    """
    parser = argparse.ArgumentParser(
        prog="python -m analysis", description="Tables, figures and reports from run folders."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    show = commands.add_parser("show", help="make a run's tables and figures again and print its summary")
    show.add_argument("run", help="a finished run folder")
    rows = commands.add_parser("sweep", help="one table from a multirun folder, written into it and printed")
    rows.add_argument("folder", help="a folder of runs of one job")
    side = commands.add_parser("compare", help="print the main metrics of several runs side by side")
    side.add_argument("runs", nargs="+", help="finished run folders of one job")
    keep = commands.add_parser("record", help="keep a finished run as the record of a result")
    keep.add_argument("run", help="a finished run folder")
    keep.add_argument("folder", help="folder of the record, such as results/source_selection")
    whole = commands.add_parser("report", help="gather runs beside the paper's claims into a page and files")
    whole.add_argument("records", nargs="*", help="run stores or records; default: runs, or else results")
    whole.add_argument("--out", default="report", help="folder for the report (default: report)")
    given = parser.parse_args(arguments)
    try:
        if given.command == "show":
            print(present(given.run))
        elif given.command == "sweep":
            print(sweep(given.folder))
        elif given.command == "compare":
            print(compare(given.runs))
        elif given.command == "record":
            print(record(given.run, given.folder))
        else:
            print(report(given.records or [_default_records()], given.out))
    except AnalysisError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _default_records() -> str:
    for name in DEFAULT_RECORDS:
        if Path(name).is_dir():
            return name
    raise AnalysisError(f"report: no folder {' or '.join(DEFAULT_RECORDS)} here; name the records")


if __name__ == "__main__":
    sys.exit(main())
