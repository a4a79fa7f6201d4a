"""Tables, figures, summary, sweep and comparison of synthetic runs."""

import csv
import hashlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from synthetic_runs import DOMAINS, synthetic_run

import analysis
from analysis import jobs, style
from analysis.__main__ import main
from analysis.errors import AnalysisError
from analysis.figures import gain_scatter, heatmap, task_map
from analysis.load import RunFolder
from analysis.pairs import read_pairs
from analysis.sweep import sweep

ROOT = Path(__file__).parents[1]
TABLES = {"ranking", "factors", "domains", "sketch_vs_exact", "scores", "transfer_gain"}
FIGURES = {"alignment_heatmap", "alignment_against_gain", "top1", "factors", "task_map", "regret"}


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    folder = synthetic_run(tmp_path_factory.mktemp("synthetic") / "a")
    return folder, analysis.present(folder)


def rows(file):
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def digests(folder):
    files = sorted(file for part in ("tables", "figures") for file in (folder / part).iterdir())
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def test_every_table_and_figure_is_written(shown):
    folder, _ = shown
    assert {file.name for file in (folder / "tables").iterdir()} == {
        f"{n}.{k}" for n in TABLES for k in ("csv", "md")
    }
    assert {file.name for file in (folder / "figures").iterdir()} == {
        f"{n}.{k}" for n in FIGURES for k in ("png", "pdf")
    }
    for name in TABLES:
        note = (folder / "tables" / f"{name}.md").read_text().splitlines()[-1]
        assert note == "Model tiny-model, data synthetic7 (7 domains), n = 14,336 tokens, m = 4,096, seed 0."


def test_ranking_table_holds_the_run_s_numbers(shown):
    folder, _ = shown
    table = rows(folder / "tables" / "ranking.csv")
    assert len(table) == 42
    stored = np.load(folder / "arrays" / "alignments.npz")
    gain = np.load(folder / "arrays" / "transfer.npz")["gain"].mean(axis=0)
    names = list(DOMAINS)
    for row in table:
        i, j = names.index(row["source"]), names.index(row["target"])
        for key in ("joint", "activation", "error", "coupling", "stderr_sketch"):
            assert float(row[key]) == pytest.approx(stored[key][i, j], rel=1e-7)
        whole = np.hypot(stored["stderr_sketch"][i, j], stored["stderr_sampling"][i, j])
        assert float(row["stderr"]) == pytest.approx(whole, rel=1e-7)
        assert float(row["gain"]) == pytest.approx(gain[i, j], rel=1e-7)


def test_scores_table_has_a_row_for_chance_and_no_blank(shown):
    folder, _ = shown
    table = rows(folder / "tables" / "scores.csv")
    assert [row["estimator"] for row in table] == ["joint", "activation", "error", "mean_gradient", "random"]
    assert float(table[0]["top1_low"]) == pytest.approx(1 / 7)
    assert float(table[-1]["top1"]) == pytest.approx(1 / 6)
    assert table[3]["top1"] == "not computed"
    assert all(cell.strip() for row in table for cell in row.values())


def test_summary_leads_with_ranked_sources_and_ends_with_the_note(shown):
    folder, text = shown
    blocks = text.split("\n\n")
    assert blocks[0].startswith("source_selection: Model tiny-model, data synthetic7")
    assert blocks[0].endswith("its standard error from the random features and the tokens drawn")
    ranked = blocks[1].splitlines()
    assert len(ranked) == 1 + 3 * len(DOMAINS)
    first = rows(folder / "tables" / "ranking.csv")[0]
    expected = rf"de +1 +{first['source']} +{float(first['joint']):.3f} \+- {float(first['stderr']):.3f} "
    assert re.match(expected, ranked[1])
    best = next(row for row in rows(folder / "tables" / "domains.csv") if row["domain"] == "nl")
    assert ranked[4].endswith(f"{best['best_source']} {float(best['best_gain']):+.4f}")
    assert re.search(r"^joint +0\.571 \[0\.143, 0\.857\]", blocks[2], re.M)
    assert re.search(r"^random +0\.167 ", blocks[2], re.M)
    assert blocks[3].startswith("Sketch against exact: rmse joint 0.0200")
    assert blocks[4].startswith("Note: 7 targets")


def test_figure_files_carry_no_time_and_the_style_leaves_no_trace(shown):
    folder, _ = shown
    before = dict(mpl.rcParams)
    with style.theme("dark"):
        assert style.paper() != before["figure.facecolor"]
    assert dict(mpl.rcParams) == before
    for file in (folder / "figures").iterdir():
        assert not re.search(rb"CreationDate|ModDate|tIME|Matplotlib", file.read_bytes()), file.name


def test_a_run_without_transfer_or_comparison_says_so(tmp_path):
    folder = synthetic_run(tmp_path / "a", transfer=False, metrics={"sketch": {}}, smoke=True)
    text = analysis.present(folder)
    assert "Transfer was not run: no gains and no scores." in text
    assert "Sketch against exact: not compared" in text
    assert "Smoke run, not a result." in text
    assert {file.stem for file in (folder / "tables").iterdir()} == {"ranking", "factors", "domains"}
    assert "gain" not in rows(folder / "tables" / "ranking.csv")[0]
    with pytest.raises(AnalysisError, match="no transfer gains"):
        gain_scatter.draw(read_pairs(RunFolder.open(folder)), "")


def test_heatmap_puts_groups_together_and_marks_their_borders(shown):
    pairs = read_pairs(RunFolder.open(shown[0]))
    mixed = [0, 3, 5, 1, 4, 6, 2]
    for key, value in pairs.alignment.items():
        pairs.alignment[key] = value[np.ix_(mixed, mixed)]
    pairs.names[:] = [pairs.names[i] for i in mixed]
    pairs.groups[:] = [pairs.groups[i] for i in mixed]
    with style.theme():
        axes = heatmap.draw(pairs, "caption").axes[0]
    labels = [text.get_text() for text in axes.get_yticklabels()]
    assert [DOMAINS[name] for name in labels] == ["language"] * 3 + ["code"] * 2 + ["strings"] * 2
    assert len(axes.lines) == 4  # two borders, each a line down and a line across
    image = axes.images[0].get_array()
    place = [pairs.names.index(name) for name in labels]
    expected = pairs.alignment["joint"][np.ix_(place, place)]
    off = ~np.eye(7, dtype=bool)
    np.testing.assert_array_equal(np.asarray(image)[off], expected[off])
    assert np.ma.getmaskarray(image).diagonal().all()
    printed = {text.get_text() for text in axes.texts}
    assert f"{expected[0, 1]:.2f}".replace("0.", ".", 1) in printed


def test_classical_scaling_recovers_points_of_the_plane():
    points = np.random.default_rng(0).normal(size=(9, 2))
    distances = np.linalg.norm(points[:, None] - points[None], axis=-1)
    found, share = task_map.classical_scaling(distances)
    np.testing.assert_allclose(np.linalg.norm(found[:, None] - found[None], axis=-1), distances, atol=1e-12)
    assert share == pytest.approx(1)


def test_a_job_that_nothing_shows_is_named(tmp_path):
    with pytest.raises(AnalysisError, match="job 'unheard_of' has no presenter"):
        analysis.present(synthetic_run(tmp_path / "a", job="unheard_of"))
    assert all(hasattr(jobs.find(name), "present") and jobs.find(name).METRICS for name in jobs.names())


def test_sweep_table_names_overrides_and_failed_runs(tmp_path, capsys):
    for number, (seed, status) in enumerate([(0, "finished"), (1, "failed"), (2, "finished")]):
        overrides = [f"seed={seed}", "estimator.num_features=4096", "store=/somewhere"]
        error = "FisherSketchError: too few tokens" if status == "failed" else None
        synthetic_run(tmp_path / str(number), seed=seed, status=status, error=error, overrides=overrides)
    (tmp_path / "3" / ".hydra").mkdir(parents=True)
    (tmp_path / "3" / ".hydra" / "overrides.yaml").write_text("- seed=3\n")
    assert main(["sweep", str(tmp_path)]) == 0
    assert capsys.readouterr().out.strip() == (tmp_path / "sweep.md").read_text().strip()
    table = rows(tmp_path / "sweep.csv")
    assert [row["run"] for row in table] == ["0", "1", "2", "3"]
    assert [row["seed"] for row in table] == ["0", "1", "2", "3"]
    assert [row["status"] for row in table] == ["finished", "failed", "finished", "died"]
    assert "estimator.num_features" not in table[0]
    assert table[1]["error"] == "FisherSketchError: too few tokens"
    assert "died before its job began" in table[3]["error"]
    assert float(table[2]["sketch.spearman_joint"]) == pytest.approx(0.962)
    assert all(cell.strip() for row in table for cell in row.values())


def test_sweep_without_override_files_uses_the_differences_of_the_configs(tmp_path):
    for features in (1024, 4096):
        synthetic_run(tmp_path / str(features), num_features=features)
    assert "estimator.num_features" in sweep(tmp_path)
    assert [row["estimator.num_features"] for row in rows(tmp_path / "sweep.csv")] == ["1024", "4096"]
    assert "seed" not in rows(tmp_path / "sweep.csv")[0]


def test_sweep_of_nothing_or_of_several_jobs_is_refused(tmp_path):
    with pytest.raises(AnalysisError, match="holds no run folder"):
        sweep(tmp_path)
    synthetic_run(tmp_path / "a")
    synthetic_run(tmp_path / "b", job="cost")
    with pytest.raises(AnalysisError, match=r"several jobs \(cost, source_selection\)"):
        sweep(tmp_path)


def test_compare_shows_runs_side_by_side(tmp_path, capsys):
    first, second = (
        synthetic_run(tmp_path / "a"),
        synthetic_run(tmp_path / "b", num_features=1024, transfer=False),
    )
    assert main(["compare", str(first), str(second)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert re.search(r"top1.joint +\| +0.5714 +\| +not in run", "\n".join(lines))
    assert re.search(r"estimator.num_features +\| +4,096 +\| +1,024", "\n".join(lines))
    assert main(["compare", str(first)]) == 1
    assert capsys.readouterr().err == "error: compare: give at least two run folders\n"


def test_show_in_another_process_prints_the_same_and_writes_the_same_bytes(shown, tmp_path):
    folder, text = shown
    again = shutil.copytree(folder, tmp_path / "b", ignore=shutil.ignore_patterns("tables", "figures"))
    command = [sys.executable, "-m", "analysis", "show"]
    done = subprocess.run([*command, str(again)], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == text.strip()
    assert digests(again) == digests(folder)


def test_a_mistake_is_one_line(tmp_path, capsys):
    assert main(["show", str(tmp_path / "none")]) == 1
    assert re.fullmatch(r"error: .*none: no such folder\n", capsys.readouterr().err)


def test_undefined_scores_are_written_as_such(tmp_path):
    folder = synthetic_run(tmp_path / "a", transfer=False)
    file = folder / "arrays" / "alignments.npz"
    stored = dict(np.load(file))
    stored["coupling"][0, 1] = stored["coupling"][1, 0] = np.nan
    np.savez(file, **stored)
    analysis.present(folder)
    row = next(
        row
        for row in rows(folder / "tables" / "factors.csv")
        if (row["first"], row["second"]) == ("de", "nl")
    )
    assert row["coupling"] == "nan"
    assert "undefined" in (folder / "tables" / "factors.md").read_text()
    assert json.loads((folder / "metrics.json").read_text())["seed"] == 0
