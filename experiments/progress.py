"""Progress bars with the time left, on stderr."""

import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

from tqdm import tqdm

T = TypeVar("T")


def progress(iterable: Iterable[T], desc: str, total: int | None = None) -> Iterator[T]:
    """Goes through an iterable under a progress bar.

    Args:
        iterable: What to go through.
        desc: A word or two on what one step is.
        total: Number of steps, where the iterable has no length.

    Yields:
        The elements of ``iterable``.
    """
    with _bar(iterable, desc, total) as bar:
        yield from bar


def progress_bar(desc: str, total: int) -> tqdm:
    """Returns a progress bar that its owner moves with `update`; a context manager."""
    return _bar(None, desc, total)


def _bar(iterable: Iterable[T] | None, desc: str, total: int | None) -> tqdm:
    # A file of a cluster's output gets a line now and then; a terminal gets a live bar.
    every = 0.5 if sys.stderr.isatty() else 30.0
    return tqdm(iterable, desc=desc, total=total, mininterval=every, file=sys.stderr, dynamic_ncols=True)
