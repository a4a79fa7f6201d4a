"""The main job whole, on a tiny model and tiny texts: what it writes, and ablations by overrides alone."""

import json
import random
from pathlib import Path

import numpy as np
import pytest
import yaml
from hydra import compose, initialize_config_dir
from saved_models import save_tiny_llama

from experiments.config import BASELINES, discover, load
from experiments.source_selection import run
from experiments.store import Store

CONF = Path(__file__).resolve().parent.parent / "conf"
NAMES = ["low", "middle", "high", "all"]
SCORED = {"joint", "activation", "error", "coupling", "random", "source_loss", "exact_on_first_windows"}


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """A folder with a model and config groups for the texts."""
    folder = tmp_path_factory.mktemp("texts")
    save_tiny_llama(folder / "model")
    entries = {}
    for number, name in enumerate(NAMES):
        words = random.Random(number)
        first, last = {"low": (0, 60), "middle": (30, 90), "high": (60, 120), "all": (0, 120)}[name]
        text = " ".join(f"w{words.randint(first, last)}" for _ in range(600))
        (folder / f"{name}.txt").write_text(text)
        entries[name] = {
            "kind": "local_text",
            "group": "words",
            "licence": "none",
            "path": f"{folder}/{name}.txt",
        }
    sizes = {"window_tokens": 16, "train_windows": 4, "sketch_windows": 4, "held_out_windows": 2}
    content = {
        "defaults": ["/schema/domains/set@_here_", "_self_"],
        "name": "words",
        **sizes,
        "piece_characters": 64,
        "siblings": {"pair": ["low", "all"]},
        "entries": entries,
    }
    (folder / "domains").mkdir()
    (folder / "domains" / "words.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    return folder


@pytest.fixture
def selection(texts, tmp_path, monkeypatch):
    """Runs the job with overrides; returns its folder and metrics."""
    monkeypatch.setenv("FISHERSKETCH_CACHE", str(texts / "cache"))
    common = ["model=local", f"model.path={texts}/model", "domains=words", "device=cpu"]
    common += ["estimator.num_features=64", "estimator.exact_windows=2", "transfer=head", "smoke=true"]

    def start(*overrides):
        discover()
        with initialize_config_dir(str(CONF), version_base="1.3"):
            raw = compose("config", [f"hydra.searchpath=[{texts}]", *common, *overrides])
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        with Store(folder, {}, "test") as store:
            run(load(raw), store)
        return folder, json.loads((folder / "metrics.json").read_text())

    return start


def arrays(folder, name):
    with np.load(folder / "arrays" / f"{name}.npz", allow_pickle=False) as stored:
        return {key: stored[key] for key in stored.files}


def test_every_estimator_is_scored_in_every_section(selection):
    baselines = f"estimator.baselines=[{','.join(BASELINES)}]"
    folder, metrics = selection(
        baselines, "estimator.extra_streams=[mean_gradient,unit_joint]", "transfer.seeds=[0,1]"
    )
    names = SCORED | set(BASELINES) | {"unit_joint", "mean_gradient_sketch"}
    held = arrays(folder, "estimators")
    assert held.keys() == names | {"names", "groups"}
    assert all(held[name].shape == (4, 4) for name in names)
    for section in (metrics, metrics["within_groups"], metrics["without_siblings"]):
        for metric in ("top1", "top1_interval", "top1_over_random", "mean_regret", "mean_spearman"):
            assert section[metric].keys() == names, metric
        assert section["p_top1_against_joint"].keys() == names - {"joint"}
        assert 0 <= section["ceiling_top1_seeds"] <= 1 and 0 <= section["ceiling_top1_halves"] <= 1
    assert metrics["matrix_p_mantel"].keys() == metrics["matrix_p_spearman"].keys() == names
    assert "candidates_24" not in metrics
    assert metrics["random_top1"] == metrics["top1"]["random"] == pytest.approx(1 / 3)
    assert metrics["without_siblings"]["n_sibling_pairs"] == 2
    assert metrics["selected_score"]["n_scores"] == (len(names) - 2) ** 2  # n, and two sums of every pair
    assert metrics["baselines"].keys() == set(BASELINES)
    gain = arrays(folder, "transfer")["gain"]
    assert gain.shape == (2, 4, 4) and np.isfinite(gain).all()
    assert arrays(folder, "overlap")["overlap"].shape == (4, 4)
    losses = arrays(folder, "transfer")["base_loss"]
    np.testing.assert_array_equal(held["source_loss"], np.tile(losses[:, None], 4))
    exact, joint = arrays(folder, "exact")["joint"], held["exact_on_first_windows"]
    np.testing.assert_array_equal(exact, joint)


@pytest.mark.parametrize(
    "overrides",
    [
        ["estimator=rademacher", "estimator.num_features=32"],
        ["estimator=hadamard", "estimator.num_features=32"],
        ["estimator=fishersketch_int4", "estimator.num_features=64"],
        ["estimator.signature=int8", "estimator.self_terms=plain"],
        ["estimator.label_mode=model", "estimator.label_seed=3"],
        ["estimator.sample_unit=sequence"],
        ["domains.sketch_windows=2", "estimator.exact_windows=0"],
        ["domains.window_tokens=8"],
        ["domains.train_windows=6", "transfer.train_windows=2"],
        ["transfer=full", "transfer.epochs=2"],
        ["transfer=lora"],
        ["seed=1"],
    ],
    ids=" ".join,
)
def test_an_ablation_is_an_override(selection, overrides):
    folder, metrics = selection(*overrides)
    joint = arrays(folder, "alignments")["joint"]
    assert joint.shape == (4, 4) and metrics["top1"].keys() >= {"joint", "token_frequency", "mean_gradient"}
    _, plain = selection()
    assert metrics["mean_spearman"] != plain["mean_spearman"] or metrics["sketch"] != plain["sketch"]


def test_gains_from_a_file_take_the_place_of_fine_tuning(selection, tmp_path):
    random_gain = np.random.default_rng(0).normal(size=(4, 4))
    lines = [",".join(["source", *NAMES])]
    lines += [
        ",".join([name, *map(repr, map(float, row))]) for name, row in zip(NAMES, random_gain, strict=True)
    ]
    (tmp_path / "gains.csv").write_text("\n".join(lines))
    folder, metrics = selection("transfer=csv", f"transfer.path={tmp_path}/gains.csv")
    stored = arrays(folder, "transfer")
    np.testing.assert_array_equal(stored["gain"], random_gain[None])
    assert "base_loss" not in stored and "source_loss" not in metrics["top1"]
    assert metrics["ceiling_top1_seeds"] is None and "ceiling_top1_halves" not in metrics


def test_without_gains_there_are_alignments_and_no_scores(selection):
    folder, metrics = selection("transfer=none")
    assert "top1" not in metrics and not (folder / "arrays" / "transfer.npz").exists()
    assert arrays(folder, "estimators").keys() >= {"joint", "token_frequency"}


def test_streams_of_sequences_and_names_given_twice_are_refused(selection):
    from experiments.errors import UserError

    with pytest.raises(UserError, match="estimator.sample_unit=sequence: has no extra streams; set"):
        selection("estimator.sample_unit=sequence", "estimator.extra_streams=[unit_joint]")
    with pytest.raises(UserError, match=r"estimator.baselines=\[.*\]: names one twice"):
        selection("estimator.baselines=[mean_gradient,mean_gradient]")
    with pytest.raises(UserError, match="estimator.baselines=cka: must be one of token_frequency"):
        selection("estimator.baselines=[cka]")
