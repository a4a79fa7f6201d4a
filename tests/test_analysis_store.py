"""A run that the real store and the real scores wrote, of synthetic alignments, is what analysis reads."""

import csv

import numpy as np
import pytest
from synthetic_runs import DOMAINS, synthetic_alignments

import analysis
from analysis.load import RunFolder
from experiments.scores import score_table
from experiments.store import Store

CONFIG = {
    "job": "source_selection",
    "seed": 3,
    "device": "cpu",
    "smoke": False,
    "store": "runs",
    "model": {"name": "tiny-model"},
    "domains": {"name": "synthetic7"},
    "estimator": {"num_features": 1024},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    root = tmp_path_factory.mktemp("store")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FISHERSKETCH_CACHE", str(root / "cache"))
        with Store(root / "run", CONFIG, "python run.py seed=3") as store:
            alignments = synthetic_alignments()
            noise = np.random.default_rng(1).normal(0, 0.003, (2, len(DOMAINS), len(DOMAINS)))
            gain = 0.05 * alignments["joint"] + noise
            base = np.full(len(DOMAINS), 2.5)
            estimators = {key: alignments[key] for key in ("activation", "error", "joint")}
            estimators["constant"] = np.ones_like(alignments["joint"])
            store.write_arrays("alignments", **alignments)
            store.write_arrays("estimators", **estimators)
            store.write_arrays(
                "transfer", names=list(DOMAINS), gain=gain, base_loss=base, tuned_loss=base - gain
            )
            metrics = {"model": "tiny-model", "domains": list(DOMAINS), "n_tokens": 14336, "sketch": {}}
            store.write_metrics(metrics | score_table(estimators, gain))
    return root / "run"


def test_scores_of_the_real_table_are_shown(run):
    text = analysis.present(run)
    metrics = RunFolder.open(run).metrics
    with (run / "tables" / "scores.csv").open(newline="") as lines:
        rows = {row["estimator"]: row for row in csv.DictReader(lines)}
    assert list(rows) == [
        "joint",
        "activation",
        "error",
        "constant",
        "random",
        "other fine-tuning seed",
        "transposed gain",
    ]
    for name in ("joint", "activation", "error", "constant"):
        for key in ("top1", "top3", "mean_regret", "max_regret", "matrix_spearman", "matrix_p_mantel"):
            assert float(rows[name][key]) == pytest.approx(metrics[key][name], rel=1e-6), (name, key)
        assert float(rows[name]["mean_regret_low"]) == pytest.approx(metrics["mean_regret_interval"][name][0])
    assert float(rows["random"]["top1"]) == pytest.approx(1 / 6)
    assert float(rows["other fine-tuning seed"]["top1"]) == pytest.approx(metrics["ceiling_top1_seeds"])
    assert rows["joint"]["p_top1_against_joint"] == "not computed"
    assert f"Note: {metrics['note']}" in text
    assert "m = 1,024, seed 3." in text


def test_regret_curve_agrees_with_the_real_regrets(run):
    from analysis.figures.regret_curve import regrets
    from analysis.pairs import read_pairs

    pairs = read_pairs(RunFolder.open(run))
    metrics = RunFolder.open(run).metrics
    assert set(pairs.scores) == {"joint", "activation", "error", "coupling", "constant"}
    for name in ("joint", "activation", "error", "constant"):
        found = regrets(pairs.scores[name], pairs.gain)
        assert found.mean() == pytest.approx(metrics["mean_regret"][name], abs=1e-12)
        assert found.max() == pytest.approx(metrics["max_regret"][name], abs=1e-12)
