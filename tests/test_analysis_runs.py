"""Reading synthetic run folders: what is a run, what is not, and what each mistake says."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from synthetic_runs import DOMAINS, synthetic_run

from analysis.errors import AnalysisError
from analysis.load import RunFolder, find_runs
from analysis.lookup import MISSING, look_up
from analysis.pairs import ranking, read_pairs


def test_synthetic_run_reads_back(tmp_path):
    run = RunFolder.open(synthetic_run(tmp_path / "a"))
    assert (run.job, run.status, run.smoke) == ("source_selection", "finished", False)
    assert run.metric("top1.joint") == pytest.approx(4 / 7)
    assert run.metric("top1_interval.joint.1") == pytest.approx(6 / 7)
    assert run.setting("estimator.num_features") == 4096
    assert run.setting("estimator.nothing", 5) == 5
    assert run.arrays("alignments")["joint"].shape == (7, 7)


def test_dotted_keys_lead_through_lists_and_keys_with_dots():
    values = {"a.b": {"c": [1, {"d": 2}]}, "a": {"e": None}}
    assert look_up(values, "a.b.c.1.d") == 2
    assert look_up(values, "a.e") is None
    assert look_up(values, "a.b.c.2") is MISSING
    assert look_up(values, "a.x") is MISSING
    assert look_up(values, "a.e.f") is MISSING


def test_what_is_no_finished_run_is_refused(tmp_path):
    with pytest.raises(AnalysisError, match="no such folder"):
        RunFolder.open(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(AnalysisError, match="not a run folder, it holds no manifest.json"):
        RunFolder.open(tmp_path / "empty")
    failed = synthetic_run(tmp_path / "b", status="failed", error="out of\nmemory")
    with pytest.raises(AnalysisError, match="the run is failed, not finished: out of memory"):
        RunFolder.open(failed)
    with pytest.raises(AnalysisError, match="the run is running, not finished"):
        RunFolder.open(synthetic_run(tmp_path / "c", status="running"))
    (tmp_path / "empty" / "manifest.json").write_text('{"job": "x"')
    with pytest.raises(AnalysisError, match="manifest.json: not valid JSON"):
        RunFolder.open(tmp_path / "empty")
    (tmp_path / "empty" / "manifest.json").write_text('{"job": "x"}')
    with pytest.raises(AnalysisError, match="manifest.json: lacks status"):
        RunFolder.open(tmp_path / "empty")


def test_missing_parts_are_named(tmp_path):
    folder = synthetic_run(tmp_path / "a")
    run = RunFolder.open(folder)
    with pytest.raises(AnalysisError, match=r"holds no 'top9.joint'"):
        run.metric("top9.joint")
    with pytest.raises(AnalysisError, match="holds no arrays/none.npz"):
        run.arrays("none")
    np.savez(folder / "arrays" / "pickled.npz", thing=np.array([{"a": 1}], dtype=object))
    with pytest.raises(AnalysisError, match="pickled.npz: cannot be read"):
        run.arrays("pickled")
    (folder / "metrics.json").unlink()
    with pytest.raises(AnalysisError, match="holds no metrics.json"):
        RunFolder.open(folder).metric("top1")


def test_runs_are_found_in_the_order_of_their_numbers(tmp_path):
    for name in ("10", "9", "1"):
        synthetic_run(tmp_path / "m" / name)
    synthetic_run(tmp_path / "m" / "2", status="failed")
    assert [run.path.name for run in find_runs(tmp_path)] == ["1", "2", "9", "10"]


def test_ranking_orders_sources_and_never_ranks_a_target_for_itself(tmp_path):
    pairs = read_pairs(RunFolder.open(synthetic_run(tmp_path / "a")))
    pairs.alignment["joint"][:, 0] = [1, 0.5, 0.9, 0.5, np.nan, 0.2, 0.1]
    frame = ranking(pairs)
    assert len(frame) == 7 * 6
    assert (frame["target"] != frame["source"]).all()
    names = list(DOMAINS)
    expected = [names[i] for i in (2, 1, 3, 5, 6, 4)]  # ties keep their order, the undefined score is last
    assert list(frame[frame["target"] == names[0]]["source"]) == expected
    best = frame[frame["gain_rank"] == 1].set_index("target")["source"]
    assert all(best[name] == names[pairs.best(j)] for j, name in enumerate(names))


def test_transfer_in_another_order_of_tasks_gives_the_same_gains(tmp_path):
    folder = synthetic_run(tmp_path / "a")
    before = read_pairs(RunFolder.open(folder))
    file = folder / "arrays" / "transfer.npz"
    stored = dict(np.load(file))
    order = np.array([3, 0, 6, 1, 2, 5, 4])
    gain, base = stored["gain"][:, order][:, :, order], stored["base_loss"][order]
    np.savez(file, names=stored["names"][order], gain=gain, base_loss=base)
    after = read_pairs(RunFolder.open(folder))
    np.testing.assert_array_equal(before.gain, after.gain)
    np.testing.assert_array_equal(before.base_loss, after.base_loss)
    np.savez(file, names=np.array(["x"] * 7), gain=gain, base_loss=base)
    with pytest.raises(AnalysisError, match="names other tasks"):
        read_pairs(RunFolder.open(folder))


def test_alignments_of_the_wrong_shape_are_refused(tmp_path):
    folder = synthetic_run(tmp_path / "a")
    stored = dict(np.load(folder / "arrays" / "alignments.npz"))
    np.savez(folder / "arrays" / "alignments.npz", **(stored | {"error": np.eye(3)}))
    with pytest.raises(AnalysisError, match=r"error has shape \(3, 3\), expected \(7, 7\)"):
        read_pairs(RunFolder.open(folder))
    del stored["coupling"]
    np.savez(folder / "arrays" / "alignments.npz", **stored)
    with pytest.raises(AnalysisError, match="lacks coupling"):
        read_pairs(RunFolder.open(folder))


def test_analysis_imports_neither_torch_nor_the_other_packages():
    program = (
        "import sys, analysis.__main__, importlib\n"
        "from analysis import jobs\n"
        "[jobs.find(name) for name in jobs.names()]\n"
        "print(sorted({'torch', 'experiments', 'fishersketch', 'hydra', 'scipy'} & set(sys.modules)))"
    )
    root = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=root
    )
    assert done.stdout.strip() == "[]"


def test_a_manifest_that_is_no_object_is_refused(tmp_path):
    (tmp_path / "manifest.json").write_text(json.dumps([1]))
    with pytest.raises(AnalysisError, match="expected a JSON object"):
        RunFolder.open(tmp_path)
