"""The command ``python -m analysis``."""

import argparse
import sys
from collections.abc import Sequence

from analysis.compare import compare
from analysis.errors import AnalysisError
from analysis.present import present
from analysis.sweep import sweep


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
    given = parser.parse_args(arguments)
    try:
        if given.command == "show":
            print(present(given.run))
        elif given.command == "sweep":
            print(sweep(given.folder))
        else:
            print(compare(given.runs))
    except AnalysisError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
