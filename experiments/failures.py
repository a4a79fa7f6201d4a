"""How a run ends early: signals become exceptions, exceptions become one line."""

import signal
from types import FrameType

from experiments.errors import UserError
from experiments.files import unwritable
from fishersketch.errors import FisherSketchError


class Interrupted(KeyboardInterrupt):
    """SIGINT or SIGTERM came.

    Args:
        signum: The signal's number.
    """

    def __init__(self, signum: int) -> None:
        super().__init__(signal.Signals(signum).name)
        self.signum = signum


class Reported(UserError):
    """A failure whose line has been shown already."""


def raise_on_signals() -> None:
    """Makes SIGINT and SIGTERM raise `Interrupted`; a second signal ends the process at once."""

    def stop(signum: int, frame: FrameType | None) -> None:
        signal.signal(signum, signal.SIG_DFL)
        raise Interrupted(signum)

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)


def expected(error: BaseException) -> str | None:
    """Returns the line for a mistake of the user or an error of the disk, None for any other error."""
    return str(error) if isinstance(error, FisherSketchError) else unwritable(error)


def summary(error: BaseException) -> str:
    """Returns an exception's type and the first line of its message.

    >>> summary(KeyError("loss"))
    "KeyError: 'loss'"
    """
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
