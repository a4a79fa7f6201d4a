"""The record of a run: what is copied, what stays, and what is refused."""

import subprocess
import sys
from pathlib import Path

import pytest
from synthetic_runs import synthetic_run

from analysis import tables
from analysis.caption import caption
from analysis.errors import AnalysisError
from analysis.jobs import source_selection
from analysis.load import RunFolder
from analysis.present import present
from analysis.record import KEPT, record

ROOT = Path(__file__).resolve().parent.parent


def finished(folder, **options):
    run = synthetic_run(folder, **options)
    shown = source_selection.present(RunFolder.open(run))
    for table in shown.tables:  # no figures: a record holds none
        tables.write(table, run / "tables", note=caption(RunFolder.open(run)))
    (run / "signatures").mkdir()
    (run / "run.log").write_text("log")
    return run


def test_a_record_holds_what_was_found_and_can_be_shown_again(tmp_path):
    run, target = finished(tmp_path / "run"), tmp_path / "results" / "selection"
    (target / "rows").mkdir(parents=True)
    (target / "rows" / "row.npz").write_bytes(b"row")
    (target / "arrays").mkdir()
    (target / "arrays" / "old.npz").write_bytes(b"old")
    line = [sys.executable, "-m", "analysis", "record", str(run), str(target)]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "") and str(target) in done.stdout
    assert {path.name for path in target.iterdir()} == {*KEPT, "rows"}
    for name in ("config.yaml", "metrics.json", "arrays/alignments.npz", "tables/scores.csv"):
        assert (target / name).read_bytes() == (run / name).read_bytes()
    assert not (target / "arrays" / "old.npz").exists() and (target / "rows" / "row.npz").exists()
    written = {path.name: path.read_bytes() for path in (target / "tables").iterdir()}
    present(target)
    assert written == {path.name: path.read_bytes() for path in (target / "tables").iterdir()}
    assert (target / "figures" / "alignment_heatmap.png").is_file()
    record(finished(tmp_path / "later", seed=1), target)
    assert not (target / "figures").exists() and (target / "rows" / "row.npz").exists()


def test_what_is_no_result_is_refused(tmp_path):
    target = tmp_path / "record"
    with pytest.raises(AnalysisError, match="the run is failed, not finished: no memory"):
        record(synthetic_run(tmp_path / "failed", status="failed", error="no memory"), target)
    with pytest.raises(AnalysisError, match="a smoke run checks the machinery and is no result"):
        record(finished(tmp_path / "smoke", smoke=True), target)
    with pytest.raises(AnalysisError, match="lacks tables; run it again"):
        record(synthetic_run(tmp_path / "untold"), target)
    assert not target.exists()
    run = finished(tmp_path / "run")
    with pytest.raises(AnalysisError, match="is the run itself"):
        record(run, run)
    synthetic_run(target, job="cost")
    with pytest.raises(AnalysisError, match="is a record of another job, cost"):
        record(run, target)


def test_the_tables_of_other_candidates_and_of_the_chosen_score(tmp_path):
    scores = {
        "top1": {"joint": 0.5},
        "top1_interval": {"joint": [0.25, 0.75]},
        "mean_regret": {"joint": 0.01},
        "random_top1": 0.5,
    }
    chosen = {"chosen": "rank(a) + rank(b)", "chosen_share": 0.4, "top1": 0.3, "top1_reference": 0.2}
    more = {
        "within_groups": scores,
        "candidates_24": scores | {"random_top1": 1 / 24},
        "selected_score": {"by_top1": chosen},
        "ceiling_top1_halves": 0.9,
    }
    run = finished(tmp_path / "run", metrics=more)
    written = run / "tables"
    assert "random,0.041666667" in (written / "scores_candidates_24.csv").read_text()
    assert "joint,0.5,0.25,0.75" in (written / "scores_within_groups.csv").read_text()
    assert not (written / "scores_without_siblings.csv").exists()
    assert "other half of held-out text,0.9" in (written / "scores.csv").read_text()
    line = "top1,rank(a) + rank(b),0.4,0.3,0.2,"
    assert line in (written / "selected_score.csv").read_text()
