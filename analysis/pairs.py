"""A source-selection run's pairs: every target's ranked sources with the factors and the gain beside them."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.errors import AnalysisError
from analysis.load import RunFolder

FACTORS = ("joint", "activation", "error", "coupling")


@dataclass(frozen=True)
class Pairs:
    """Alignments of T tasks and, where transfer was run, the gains.

    Attributes:
        names: task names, length T.
        groups: group of each task, length T.
        alignment: ``joint``, ``activation``, ``error``, ``coupling`` and ``stderr_sketch``, each (T, T).
        separability_gap: (T,).
        stderr: standard error of the joint alignment, (T, T): from the random features and, where the run
            holds ``stderr_sampling``, from the tokens drawn as well.
        stderr_of: what the error comes from, in words.
        n_tokens: tokens sketched a task, (T,).
        gain: mean over fine-tuning seeds in nats per token, (T, T) [source, target], or None.
        base_loss: nats per token, (T,), or None where it is not known.
        scores: the matrix by which each estimator picks, (T, T) [source, target]: the alignments and, where
            the run holds ``arrays/estimators.npz``, every other estimator.
    """

    names: list[str]
    groups: list[str]
    alignment: dict[str, np.ndarray]
    separability_gap: np.ndarray
    stderr: np.ndarray
    stderr_of: str
    n_tokens: np.ndarray
    gain: np.ndarray | None
    base_loss: np.ndarray | None
    scores: dict[str, np.ndarray]

    def order(self, target: int, score: str = "joint") -> list[int]:
        """Sources of a target, highest score first, ties in the order of the tasks, undefined scores last.

        Args:
            target: index of the target, which is no source of itself.
            score: which alignment ranks.

        Returns:
            Indices of the other tasks.
        """
        others = [i for i in range(len(self.names)) if i != target]
        column = self.alignment[score][:, target]
        return sorted(others, key=lambda i: (bool(np.isnan(column[i])), -np.nan_to_num(column[i]), i))

    def pick(self, target: int) -> int:
        """The source with the highest joint alignment.

        Args:
            target: index of the target.

        Returns:
            Index of the source.
        """
        return self.order(target)[0]

    def best(self, target: int) -> int | None:
        """The source with the highest gain.

        Args:
            target: index of the target.

        Returns:
            Index of the source, or None where transfer was not run.
        """
        if self.gain is None:
            return None
        column = self.gain[:, target].copy()
        column[target] = -np.inf
        return int(np.nanargmax(column))

    def clustered(self) -> list[int]:
        """Tasks with their group together, the most typical of a group first.

        Groups come in the order of their first task. Inside a group the tasks are sorted by their mean joint
        alignment with the rest of the group.

        Returns:
            Indices of the tasks.
        """
        joint = self.alignment["joint"]

        def typical(i: int) -> float:
            rest = [j for j, group in enumerate(self.groups) if group == self.groups[i] and j != i]
            values = joint[i, rest]
            return float(np.nanmean(values)) if np.isfinite(values).any() else -np.inf

        first = {group: self.groups.index(group) for group in self.groups}
        return sorted(range(len(self.names)), key=lambda i: (first[self.groups[i]], -typical(i), i))


def read_pairs(run: RunFolder) -> Pairs:
    """Read ``arrays/alignments.npz`` and, where it exists, ``arrays/transfer.npz``.

    Args:
        run: a finished run.

    Returns:
        The pairs, with gains in the order of the alignments.

    Raises:
        AnalysisError: an array is missing, has another shape than its names, or transfer names other tasks.
    """
    stored = run.arrays("alignments")
    where = f"{run.path}/arrays/alignments.npz"
    needed = ("names", "groups", *FACTORS, "stderr_sketch", "separability_gap", "n_tokens")
    missing = [key for key in needed if key not in stored]
    if missing:
        raise AnalysisError(f"{where}: lacks {', '.join(missing)}")
    names = [str(name) for name in stored["names"]]
    count = len(names)
    if count < 2:
        raise AnalysisError(f"{where}: {count} task, source selection needs at least two")
    for key in (*FACTORS, "stderr_sketch"):
        if stored[key].shape != (count, count):
            raise AnalysisError(f"{where}: {key} has shape {stored[key].shape}, expected {(count, count)}")
    gain = base = None
    if run.has_arrays("transfer"):
        transfer = run.arrays("transfer")
        tuned = [str(name) for name in transfer["names"]]
        if sorted(tuned) != sorted(names):
            raise AnalysisError(f"{run.path}/arrays/transfer.npz: names other tasks than alignments.npz")
        places = [tuned.index(name) for name in names]
        gain = transfer["gain"].mean(axis=0)[np.ix_(places, places)].astype(float)
        if "base_loss" in transfer:
            base = transfer["base_loss"][places].astype(float)
    scores = {key: stored[key].astype(float) for key in FACTORS}
    if run.has_arrays("estimators"):
        held = run.arrays("estimators")
        scores |= {key: held[key].astype(float) for key in held if held[key].shape == (count, count)}
    stderr, stderr_of = stored["stderr_sketch"].astype(float), "the random features"
    sampling = stored.get("stderr_sampling")
    if sampling is not None and np.isfinite(sampling).any():
        stderr, stderr_of = np.hypot(stderr, sampling), "the random features and the tokens drawn"
    return Pairs(
        names=names,
        groups=[str(group) for group in stored["groups"]],
        alignment={key: stored[key].astype(float) for key in (*FACTORS, "stderr_sketch")},
        separability_gap=stored["separability_gap"].astype(float),
        stderr=stderr,
        stderr_of=stderr_of,
        n_tokens=stored["n_tokens"],
        gain=gain,
        base_loss=base,
        scores=scores,
    )


def ranking(pairs: Pairs) -> pd.DataFrame:
    """Every pair of a target and a source, ranked for its target.

    Args:
        pairs: the alignments and gains.

    Returns:
        One row a pair: target, rank, source, its four alignments, standard error of the joint one (and what
        the features alone add to it) and, where transfer was run, the gain in nats per token and its rank.
    """
    rows = []
    for target, name in enumerate(pairs.names):
        order = pairs.order(target)
        by_gain: list[int] = []
        if pairs.gain is not None:
            column = pairs.gain[:, target]
            by_gain = sorted(order, key=lambda i: (bool(np.isnan(column[i])), -np.nan_to_num(column[i]), i))
        for rank, source in enumerate(order, start=1):
            row = {"target": name, "rank": rank, "source": pairs.names[source]}
            row |= {"joint": pairs.alignment["joint"][source, target]}
            row |= {"stderr": pairs.stderr[source, target]}
            row |= {"stderr_sketch": pairs.alignment["stderr_sketch"][source, target]}
            row |= {key: pairs.alignment[key][source, target] for key in FACTORS[1:]}
            if pairs.gain is not None:
                row |= {"gain": pairs.gain[source, target], "gain_rank": by_gain.index(source) + 1}
            rows.append(row)
    return pd.DataFrame(rows)


def matrix(values: np.ndarray, pairs: Pairs) -> pd.DataFrame:
    """A (T, T) matrix with the sources as rows and the targets as columns.

    Args:
        values: (T, T) [source, target].
        pairs: whose names to use.

    Returns:
        A frame whose first column names the source.
    """
    frame = pd.DataFrame(values, columns=pairs.names)
    frame.insert(0, "source", pairs.names)
    return frame
