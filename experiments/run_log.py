"""The log of a run: everything in its ``run.log``, the run's own lines on stderr as well."""

import logging
import sys
from pathlib import Path

from tqdm import tqdm


class _Console(logging.Handler):
    """Writes lines above the progress bars, without tracebacks."""

    def emit(self, record: logging.LogRecord) -> None:
        level = f"{record.levelname.lower()}: " if record.levelno > logging.INFO else ""
        tqdm.write(level + record.getMessage(), file=sys.stderr)


def open_run_log(path: Path) -> list[logging.Handler]:
    """Sends the log to a new file and the ``experiments`` logger's lines to stderr, warnings to the file.

    Args:
        path: The file.

    Returns:
        The handlers, for `close_run_log`.

    Raises:
        FileExistsError: When the file is there already.
    """
    file = logging.FileHandler(path, mode="x", encoding="utf-8")
    file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    console = _Console()
    logging.getLogger().addHandler(file)
    logger = logging.getLogger("experiments")
    logger.addHandler(console)
    logger.setLevel(logging.INFO)
    logging.captureWarnings(True)
    return [file, console]


def close_run_log(handlers: list[logging.Handler]) -> None:
    """Takes back what `open_run_log` did."""
    logging.captureWarnings(False)
    for handler in handlers:
        logging.getLogger().removeHandler(handler)
        logging.getLogger("experiments").removeHandler(handler)
        handler.close()
