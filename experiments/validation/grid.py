"""Agreement of one kind of sketch with the exact alignment, over projection seeds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from experiments.scoring.agreement import STATISTICS, agreement, task_interval
from fishersketch import Alignment


@dataclass(frozen=True)
class Agreement:
    """Statistics by projection seed.

    Attributes:
        values: (S, 5, 3): seed, measure (`MEASURES`), statistic (`STATISTICS`).
        intervals: (5, 2, 3): 95 % interval over tasks of the mean over seeds.
        undefined: Pairs with an undefined joint alignment or coupling, the most of any seed.
    """

    MEASURES: ClassVar[tuple[str, ...]] = ("joint", "activation", "error", "coupling", "delta")

    values: np.ndarray
    intervals: np.ndarray
    undefined: int

    def metrics(self) -> dict[str, Any]:
        """Returns plain numbers: <statistic>_<measure> with its _range over seeds and its _interval."""
        found: dict[str, Any] = {"undefined": self.undefined}
        for i, measure in enumerate(self.MEASURES):
            for k, statistic in enumerate(STATISTICS):
                values, name = self.values[:, i, k], f"{statistic}_{measure}"
                found[name] = float(values.mean())
                found[f"{name}_range"] = [float(values.min()), float(values.max())]
                found[f"{name}_interval"] = self.intervals[i, :, k].tolist()
        return found


def compare(sketched: Sequence[Alignment], exact: Alignment, resamples: int) -> Agreement:
    """Compares sketched alignments with the exact one, over pairs of tasks, and delta over tasks.

    Args:
        sketched: One for each projection seed.
        exact: On the same or more samples.
        resamples: Resamples of the tasks for the intervals.

    Returns:
        The statistics of each, and their intervals.
    """
    values, intervals = [], []
    for measure in Agreement.MEASURES:
        field = "separability_gap" if measure == "delta" else measure
        truth = getattr(exact, field).numpy()
        estimates = np.stack([getattr(table, field).numpy() for table in sketched])
        pairs = np.triu_indices(len(truth), 1) if truth.ndim == 2 else (np.arange(len(truth)),)
        values.append([agreement(estimate[pairs], truth[pairs]) for estimate in estimates])
        intervals.append(task_interval(estimates, truth, seed=0, resamples=resamples))
    return Agreement(
        values=np.array(values).transpose(1, 0, 2),
        intervals=np.array(intervals),
        undefined=max(table.undefined for table in sketched),
    )
