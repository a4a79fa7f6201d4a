"""How a run ends early: signals become exceptions, exceptions become one line."""

import re
import signal
from types import FrameType

from experiments.errors import UserError
from experiments.files import unwritable
from fishersketch.errors import FisherSketchError

# How torch and numpy say how much they asked for, on the CPU and on a GPU.
_NO_MEMORY = (
    r"can't allocate memory: you tried to allocate (\d+ bytes)",
    r"CUDA out of memory\. Tried to allocate ([\d.]+ \wiB)",
    r"Unable to allocate ([\d.]+ \wiB)",
)


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
    """Returns the line for a mistake of the user or a disk or memory that is full, None for other errors."""
    return str(error) if isinstance(error, FisherSketchError) else unwritable(error) or _too_large(error)


def _too_large(error: BaseException) -> str | None:
    asked = next((found for way in _NO_MEMORY if (found := re.search(way, str(error)))), None)
    if not isinstance(error, MemoryError | RuntimeError) or (
        asked is None and not isinstance(error, MemoryError)
    ):
        return None
    size = f" for {asked[1]}" if asked else ""
    return (
        f"memory: there is not enough{size}; lower estimator.num_features or the size and number of windows, "
        "or take a smaller model or a larger machine"
    )


def summary(error: BaseException) -> str:
    """Returns an exception's type and the first line of its message.

    >>> summary(KeyError("loss"))
    "KeyError: 'loss'"
    """
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
