"""What a second run, with another number of threads, may change: nothing but the times."""

import json
from pathlib import Path

from tiny_run import make_tiny, run_tiny

TINY = ("model=tiny", "domains=words", "estimator.num_features=64", "estimator.exact_windows=2")


def contents(folder: Path) -> dict[str, bytes]:
    """Files below a folder by name, without locks."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".lock")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def test_a_run_with_more_threads_changes_no_byte(tmp_path):
    make_tiny(tmp_path)
    made = []
    for name, threads in (("one", 1), ("two", 2)):
        done, (folder,) = run_tiny(tmp_path, name, *TINY, cache=f"cache of {name}", threads=threads)
        assert done.returncode == 0, done.stderr
        metrics = json.loads((folder / "metrics.json").read_text())
        del metrics["seconds"]
        parts = {part: contents(folder / part) for part in ("arrays", "signatures")}
        parts["artefacts"] = contents(tmp_path / f"cache of {name}" / "artefacts")
        made.append((json.dumps(metrics), parts))
    (metrics, parts), (other, theirs) = made
    assert all(parts.values())
    assert {name.split("/")[0] for name in parts["artefacts"]} >= {"sketches", "summaries", "exact"}
    assert other == metrics
    for part, mine in parts.items():
        assert theirs[part].keys() == mine.keys()
        assert [name for name in mine if mine[name] != theirs[part][name]] == []
