"""Seconds of pieces of work that take turns, so that what else the machine does hits all of them alike."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence

import torch

Work = Callable[[], object]


class Clock:
    """Reads the time that work takes on a device.

    On a CPU it is the processor time of this process, all threads together: other processes do not count.
    On a GPU it is wall time with the device idle before and after.

    Args:
        device: where the work runs.
    """

    def __init__(self, device: torch.device):
        self.device = device

    @property
    def unit(self) -> str:
        """What a second is."""
        return "wall seconds" if self.device.type == "cuda" else "processor seconds of the process"

    def now(self) -> float:
        """Returns the time, in seconds from an arbitrary start."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
            return time.perf_counter()
        return time.process_time()

    def seconds(self, work: Work) -> float:
        """Returns how long one call takes."""
        start = self.now()
        work()
        return self.now() - start

    def interleaved(
        self, works: Mapping[str, Work], repeats: int, prepare: Work = lambda: None
    ) -> dict[str, list[float]]:
        """Times several pieces of work in turns.

        Args:
            works: name to work; each runs once before it is timed.
            repeats: turns of each.
            prepare: called before every run, and not timed.

        Returns:
            Name to the seconds of each turn.
        """
        taken: dict[str, list[float]] = {name: [] for name in works}
        for turn in range(repeats + 1):
            for name, work in works.items():
                prepare()
                seconds = self.seconds(work)
                if turn:
                    taken[name].append(seconds)
        return taken


def spread(values: Sequence[float]) -> dict[str, float]:
    """Returns median, min and max of repeats.

    >>> spread([3.0, 1.0, 2.0])
    {'median': 2.0, 'min': 1.0, 'max': 3.0}
    """
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def ratios(above: Sequence[float], below: Sequence[float]) -> list[float]:
    """Returns the ratio of each turn: what two pieces of work took one after the other.

    >>> ratios([2.0, 3.0], [1.0, 2.0])
    [2.0, 1.5]
    """
    return [x / y for x, y in zip(above, below, strict=True)]
