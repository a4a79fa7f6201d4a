"""What surrounds a run on the command line: signals, errors in one line, exit codes."""

import os
import shlex
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager

from experiments.failures import Interrupted, Reported, expected, raise_on_signals, summary
from experiments.hydra_errors import explain_hydra

_WITH_TRACEBACK = os.environ.get("HYDRA_FULL_ERROR") == "1"


@contextmanager
def guarded() -> Generator[None, None, None]:
    """Turns what ends the program early into one line on stderr and an exit code.

    The code is 1 for an error, 130 after Ctrl-C and 143 after SIGTERM. With ``HYDRA_FULL_ERROR=1`` in the
    environment an error keeps its traceback.

    Yields:
        Nothing.

    Raises:
        Exception: Any, with ``HYDRA_FULL_ERROR=1``.
    """
    # Without it Hydra prints errors and exits by itself.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    raise_on_signals()
    try:
        yield
    except KeyboardInterrupt as interrupt:
        print("interrupted; the same command goes on from what is in the cache", file=sys.stderr)
        sys.exit(128 + (interrupt.signum if isinstance(interrupt, Interrupted) else signal.SIGINT))
    except Exception as error:
        if _WITH_TRACEBACK:
            raise
        _report(error)
        sys.exit(1)


@contextmanager
def one_job(sweep: bool) -> Generator[None, None, None]:
    """Says at once why a job failed, and lets the other jobs of a sweep go on.

    Args:
        sweep: Whether the job is one of ``-m``.

    Yields:
        Nothing.

    Raises:
        Exception: Any, with ``HYDRA_FULL_ERROR=1``.
        Reported: In a sweep, for Hydra, which goes on and fails at the end.
    """
    try:
        yield
    except Exception as error:
        if _WITH_TRACEBACK:
            raise
        _report(error)
        if sweep:
            raise Reported(str(error)) from error
        # An exception would make Hydra add a line of its own.
        sys.exit(1)


def _report(error: Exception) -> None:
    if not isinstance(error, Reported):
        line = expected(error) or explain_hydra(error, sys.argv[1:])
        print(f"error: {line or summary(error) + ' (HYDRA_FULL_ERROR=1 shows where)'}", file=sys.stderr)


def command(overrides: list[str], sweep: bool) -> str:
    """Returns the command line that makes one run, also where it was one of a sweep's.

    Args:
        overrides: The overrides of the run.
        sweep: Whether the run is one job of ``-m``.

    >>> command(["seed=1", "store=my runs"], sweep=True)
    "python run.py seed=1 'store=my runs'"
    """
    return shlex.join(["python", "run.py", *(overrides if sweep else sys.argv[1:])])
