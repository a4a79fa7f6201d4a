"""Which runs a report rests on, and which it leaves out and why."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from analysis.caption import data_of, model_of, samples_of
from analysis.errors import AnalysisError
from analysis.load import RunFolder, find_runs


@dataclass(frozen=True)
class Records:
    """The runs of a store.

    Attributes:
        roots: the stores.
        runs: all runs, whatever became of them.
        chosen: the runs that results come from: for each job, model and data the finished run that ended
            last, smoke runs never among them.
    """

    roots: list[Path]
    runs: list[RunFolder]
    chosen: list[RunFolder]

    def name(self, run: RunFolder) -> str:
        """Where a run is.

        Args:
            run: one of `runs`.

        Returns:
            Its folder, relative to the store where there is one store.
        """
        if len(self.roots) > 1:
            return run.path.as_posix()
        path = run.path.relative_to(self.roots[0]).as_posix()
        return path if path != "." else run.path.resolve().name

    @property
    def where(self) -> str:
        """The stores in words."""
        return _listed(self.roots)

    def of(self, job: str, data: Sequence[str] = ()) -> list[RunFolder]:
        """The chosen runs of a job.

        Args:
            job: its name.
            data: names of the data that they are on; none for any.

        Returns:
            One run for each model and data.
        """
        return [run for run in self.chosen if run.job == job and _is_on(run, data)]

    def siblings(self, run: RunFolder) -> list[RunFolder]:
        """The results of the same job, model and data.

        Args:
            run: one of `chosen`.

        Returns:
            It and the finished runs, smoke runs left out, that it was chosen from.
        """
        return [other for other in self.runs if usable(other) and kind(other) == kind(run)]

    def why_none(self, job: str, data: Sequence[str] = ()) -> str:
        """Why a job has no result.

        Args:
            job: its name.
            data: names of the data that it would be on; none for any.

        Returns:
            One line.
        """
        runs = [run for run in self.runs if run.job == job and _is_on(run, data)]
        what = f"job {job}" + (f" on {' or '.join(data)}" if data else "")
        if not runs:
            return f"no run of {what}"
        states = ["smoke" if run.status == "finished" else run.status for run in runs]
        counts = [f"{states.count(state)} {state}" for state in sorted(set(states))]
        return f"no result of {what}: its runs are {', '.join(counts)}"

    def table(self) -> pd.DataFrame:
        """Every run and what was made of it.

        Returns:
            One row a run.
        """
        rows = []
        for run in self.runs:
            if run in self.chosen:
                use = "shown"
            elif usable(run):
                use = "one of several: in the table of settings"
            else:
                use = "not used: smoke run" if run.status == "finished" else f"not used: {run.status}"
            rows.append({
                "run": self.name(run),
                "job": run.job,
                "status": run.status,
                "use": use,
                "model": model_of(run),
                "data": data_of(run),
                "n": samples_of(run),
                "seed": _said(run.manifest.get("seed")),
                "device": _said(run.manifest.get("device")),
                "seconds": _said(run.manifest.get("wall_seconds")),
                "commit": _said(run.manifest.get("git_commit"))[:12]
                + (" (changed)" if run.manifest.get("git_dirty") else ""),
                "error": run.why.removeprefix(": ") or "none",
            })
        return pd.DataFrame(rows)


def usable(run: RunFolder) -> bool:
    """Whether a run is a result.

    Args:
        run: any run.

    Returns:
        True for a finished run that is no smoke run.
    """
    return run.status == "finished" and not run.smoke


def kind(run: RunFolder) -> tuple[str, str, str]:
    """What a run is about.

    Args:
        run: a finished run.

    Returns:
        Its job, model and data.
    """
    return run.job, model_of(run), data_of(run)


def gather(*stores: str | Path) -> Records:
    """Read stores.

    Args:
        *stores: folders of runs, or of records of them.

    Returns:
        Its runs and those that results come from.

    Raises:
        AnalysisError: no such folder, or no run in any.
    """
    roots = [Path(store) for store in stores]
    runs = [run for root in roots for run in find_runs(root)]
    if not runs:
        raise AnalysisError(f"{_listed(roots)}: holds no run folder (no manifest.json)")
    last: dict[tuple[str, str, str], RunFolder] = {}
    for run in filter(usable, runs):
        held = last.get(kind(run))
        if held is None or _ended(run) >= _ended(held):
            last[kind(run)] = run
    return Records(roots, runs, sorted(last.values(), key=kind))


def _listed(roots: list[Path]) -> str:
    return " and ".join(map(str, roots))


def _is_on(run: RunFolder, data: Sequence[str]) -> bool:
    return not data or data_of(run).partition(" (")[0] in data


def _ended(run: RunFolder) -> str:
    return str(run.manifest.get("finished") or "")


def _said(value: object) -> str:
    return "not recorded" if value is None else f"{value:.1f}" if isinstance(value, float) else str(value)
