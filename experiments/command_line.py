"""What surrounds a run on the command line: signals, errors in one line, exit codes."""

import os
import shlex
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager

from experiments.failures import Interrupted, Reported, expected, raise_on_signals, summary
from experiments.hydra_errors import explain_hydra


@contextmanager
def guarded() -> Generator[None, None, None]:
    """Turns what ends a run early into one line on stderr and an exit code.

    The code is 1 for an error, 130 after Ctrl-C and 143 after SIGTERM. With ``HYDRA_FULL_ERROR=1`` in the
    environment an error keeps its traceback.

    Yields:
        Nothing.

    Raises:
        Exception: Any, with ``HYDRA_FULL_ERROR=1``.
    """
    with_traceback = os.environ.get("HYDRA_FULL_ERROR") == "1"
    # Without it Hydra prints errors and exits by itself.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    raise_on_signals()
    try:
        yield
    except KeyboardInterrupt as interrupt:
        print("interrupted; the same command goes on from what is in the cache", file=sys.stderr)
        sys.exit(128 + (interrupt.signum if isinstance(interrupt, Interrupted) else signal.SIGINT))
    except Exception as error:
        if with_traceback:
            raise
        if not isinstance(error, Reported):
            line = expected(error) or explain_hydra(error, sys.argv[1:])
            print(f"error: {line or summary(error) + ' (HYDRA_FULL_ERROR=1 shows where)'}", file=sys.stderr)
        sys.exit(1)


def command(overrides: list[str], sweep: bool) -> str:
    """Returns the command line that makes one run, also where it was one of a sweep's.

    Args:
        overrides: The overrides of the run.
        sweep: Whether the run is one job of ``-m``.

    >>> command(["seed=1", "store=my runs"], sweep=True)
    "python run.py seed=1 'store=my runs'"
    """
    return shlex.join(["python", "run.py", *(overrides if sweep else sys.argv[1:])])
