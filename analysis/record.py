"""Keep a finished run as the record of a result: what it found, without logs, signatures and figures."""

import shutil
from pathlib import Path

from analysis.errors import AnalysisError
from analysis.load import RunFolder

# Figures are made again by ``python -m analysis show``.
KEPT = ("config.yaml", "manifest.json", "metrics.json", "arrays", "tables")


def record(run: str | Path, folder: str | Path) -> str:
    """Copy what belongs in a record from a run's folder; what else the record holds, such as rows, stays.

    Args:
        run: a finished run.
        folder: the record, made where there is none; an older run's record in it is replaced.

    Returns:
        A line that says what was done.

    Raises:
        AnalysisError: the run did not finish, is a smoke run, lacks a part, or the record is of another job.
    """
    source, target = RunFolder.open(run), Path(folder)
    if source.smoke:
        raise AnalysisError(f"{source.path}: a smoke run checks the machinery and is no result")
    missing = [name for name in KEPT if not (source.path / name).exists()]
    if missing:
        raise AnalysisError(f"{source.path}: lacks {', '.join(missing)}; run it again")
    if target.resolve() == source.path.resolve():
        raise AnalysisError(f"{target}: is the run itself; name another folder for the record")
    if (target / "manifest.json").exists() and RunFolder.open(target, finished=False).job != source.job:
        raise AnalysisError(
            f"{target}: is a record of another job, {RunFolder.open(target, finished=False).job}"
        )
    target.mkdir(parents=True, exist_ok=True)
    for name in KEPT:
        replace(source.path / name, target / name)
    shutil.rmtree(target / "figures", ignore_errors=True)  # they were of the run before
    return f"{target}: holds {', '.join(KEPT)} of {source.path}"


def replace(source: Path, target: Path) -> None:
    """Copy a file or a folder over what is there, which stays whole until the copy is.

    Args:
        source: what to copy.
        target: where to.
    """
    fresh = target.with_name(f".{target.name}.new")
    if fresh.is_dir():
        shutil.rmtree(fresh)
    if source.is_dir():
        shutil.copytree(source, fresh)
        if target.exists():
            shutil.rmtree(target)
    else:
        shutil.copyfile(source, fresh)
    fresh.replace(target)
