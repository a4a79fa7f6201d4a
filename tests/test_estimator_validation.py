"""The validation of the sketch on image tasks, whole and tiny, and its parts."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hub_server import serve_hub
from hydra import compose, initialize_config_dir
from safetensors.torch import save_file
from scipy.stats import spearmanr

import analysis
from analysis.claims import judge, read_claims
from analysis.load import RunFolder
from experiments import estimator_validation
from experiments.config import discover, load, resolved
from experiments.domains.glyphs import GlyphSetConfig
from experiments.errors import UserError
from experiments.images.corruptions import CORRUPTIONS
from experiments.images.glyphs import CLASSES, FONTS, draw_glyphs, font_file
from experiments.models.glyph_vit import GlyphVit
from experiments.scoring.agreement import STATISTICS, agreement, task_interval
from experiments.store import Store
from experiments.validation.terms import accuracy, check_model, task_terms

ROOT = Path(__file__).resolve().parent.parent
CPU = torch.device("cpu")
TINY = [
    "experiment=estimator_validation",
    "smoke=true",
    "device=cpu",
    "model.width=16",
    "model.depth=1",
    "model.heads=2",
    "model.images=400",
    "model.epochs=2",
    "model.fonts=[DejaVuSans,DejaVuSerif]",
    "domains.images=64",
    "domains.held_out_images=24",
    "domains.limit=6",
    "estimator.num_features=256",
    "settings.features=[16,256]",
    "settings.samples=[16,64]",
    "settings.projection_seeds=2",
    "settings.payload_bytes=256",
    "settings.repeats=2",
    "settings.speed_tasks=3",
    "settings.resamples=20",
    "settings.route_samples=32",
    "settings.route_tasks=2",
    "settings.relabelled_samples=32",
    "settings.transfer_images=64",
    "settings.transfer_seen=24",
]


def configured(*overrides: str):
    discover()
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        raw = compose("config", list(overrides))
    return load(raw), resolved(raw)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FISHERSKETCH_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def run(cache, tmp_path_factory) -> RunFolder:
    cfg, plain = configured(*TINY)
    folder = tmp_path_factory.mktemp("runs") / "run"
    with Store(folder, plain, "python run.py experiment=estimator_validation") as store:
        estimator_validation.run(cfg, store)
    return RunFolder.open(folder)


def test_more_features_come_nearer_to_the_exact_alignment(run):
    stored = run.arrays("agreement")
    assert stored["values"].shape == (2, 2, 2, 5, 3)
    rmse = stored["values"][:, -1, :, list(stored["measures"]).index("joint"), STATISTICS.index("rmse")].mean(
        1
    )
    assert rmse[1] < rmse[0]
    assert 0 < stored["gaussian"][1] < stored["gaussian"][0]
    low, high = run.metrics["sketch"]["spearman_joint_range"]
    assert -1 <= low <= run.metrics["sketch"]["spearman_joint"] <= high <= 1


def test_the_stored_alignments_give_the_stored_agreement(run):
    sketched, exact = run.arrays("alignments"), run.arrays("exact")
    pairs = np.triu_indices(6, 1)
    values = agreement(sketched["joint"][pairs], exact["joint"][pairs])
    np.testing.assert_allclose(values, run.arrays("agreement")["values"][1, 1, 0, 0], rtol=1e-12)
    np.testing.assert_allclose(
        exact["joint"], exact["activation"] * exact["error"] * exact["coupling"], rtol=1e-9
    )


def test_payloads_hold_as_many_features_as_fit(run):
    features = {name: values["num_features"] for name, values in run.metrics["payload"].items()}
    assert features == {"float32": 64, "int8": 256, "int4": 512}


def test_both_exact_routes_agree_and_are_timed(run):
    assert run.metrics["routes"]["max_difference"] < 1e-9
    speed = run.metrics["speedup"]
    assert set(speed["ratio"]) == {"gram", "gram_pair", "materialized_pair"}
    for ratio in speed["ratio"].values():
        assert 0 < ratio["min"] <= ratio["median"] <= ratio["max"]


def test_a_class_map_restores_what_another_order_of_labels_loses(run):
    found = run.metrics["class_map"]
    assert found["mapped_joint"] == pytest.approx(1, abs=1e-6)
    assert found["worst_change"] < 1e-9
    assert found["unmapped_error"] < 0.9 and found["unmapped_joint"] < 0.9


def test_gains_leep_and_logme_are_scored(run):
    assert set(run.metrics["top1"]) == {"joint", "activation", "error", "coupling", "leep", "logme"}
    assert run.arrays("transfer")["gain"].shape == (1, 6, 6)
    leep = run.arrays("estimators")["leep"]
    assert np.isfinite(leep).all() and leep.max() <= 0


def test_a_run_is_shown_and_speaks_about_the_claims(run):
    text = analysis.present(run.path)
    assert "coupling" in text
    for name in ("error_against_features", "spearman_against_samples", "sketched_against_exact"):
        assert (run.path / "figures" / f"{name}.png").stat().st_size > 5000
    assert "materialized_pair" in (run.path / "tables" / "speed.md").read_text()
    claims = [claim for claim in read_claims() if claim.job == "estimator_validation"]
    assert len(claims) == 3
    assert all(judge(claim, run).gap == "" for claim in claims)


def test_mistakes_are_named(cache):
    for change, line in (
        ("domains=demo12", r"^domains=demo12: holds no images; choose domains=glyphs$"),
        ("estimator.sample_unit=sequence", r"^estimator\.sample_unit=sequence: an image is one sample"),
        ("estimator.num_features=100", r"^estimator\.num_features=100: must be one of settings\.features"),
    ):
        overrides = [each for each in TINY if change.split("=")[0] not in each and "domains." not in each]
        cfg, _ = configured(*overrides, change)
        with pytest.raises(UserError, match=line):
            estimator_validation.run(cfg, None)
    with pytest.raises(
        UserError, match=r"^settings\.samples=\[500, 125\]: must be one or more rising numbers"
    ):
        configured(*TINY, "settings.samples=[500,125]")
    with pytest.raises(UserError, match=r"^domains=glyphs: holds images, no text; choose text domains"):
        configured("domains=glyphs")[0].domains.build(None)


def test_glyphs_are_the_same_every_time_and_differ_between_tasks():
    assert len(CLASSES) == 62 and all(font_file(font).is_file() for font in FONTS)
    first, labels = draw_glyphs("DejaVuSans", "none", 40, "x", 0)
    again, same = draw_glyphs("DejaVuSans", "none", 40, "x", 0)
    assert torch.equal(first, again) and torch.equal(labels, same)
    assert first.shape == (40, 32, 32) and first.dtype == torch.uint8
    assert (first.flatten(1).max(1).values > 128).all()
    for other in (("cmr10", "none", 40, "x", 0), ("DejaVuSans", "none", 40, "y", 0)):
        assert not torch.equal(draw_glyphs(*other)[0], first)


@pytest.mark.parametrize("corruption", CORRUPTIONS[1:])
def test_every_corruption_does_something(corruption):
    images, labels = draw_glyphs("DejaVuSans", corruption, 62, "x", 0)
    plain, _ = draw_glyphs("DejaVuSans", "none", 62, "x", 0)
    assert images.shape == plain.shape and not torch.equal(images, plain)
    ink = {"thick": 1.1, "inverted": 1.5}.get(corruption)
    if ink:
        assert images.double().mean() > ink * plain.double().mean()
    if corruption in ("thin", "faint"):
        assert images.double().mean() < 0.9 * plain.double().mean()


def test_the_model_learns_and_is_trained_once(cache):
    config = GlyphVit(width=32, depth=1, fonts=["DejaVuSans"], images=1500, epochs=4)
    loaded = config.build(CPU)
    tasks = GlyphSetConfig(images=32, held_out_images=300, entries={"a": {}}).build_images().tasks
    assert accuracy(loaded, tasks[0].held_out_images, tasks[0].held_out_labels) > 0.1  # chance: 0.016
    again = config.build(CPU)
    assert again.fingerprint == loaded.fingerprint and again.model is not loaded.model
    terms = task_terms(configured(*TINY)[0].estimator, loaded, tasks[0])
    outputs = loaded.model(**loaded.inputs(tasks[0].images)).softmax(1).detach()
    errors = outputs - torch.nn.functional.one_hot(tasks[0].labels, 62)
    torch.testing.assert_close(terms.errors, errors, rtol=1e-4, atol=1e-6)
    assert terms.group.tolist() == list(range(32))


def test_labels_are_drawn_where_the_outputs_are_other_classes(cache):
    loaded = GlyphVit(width=8, depth=1, heads=1, fonts=["cmr10"], images=64, epochs=1).build(CPU)
    tasks = GlyphSetConfig(images=16, held_out_images=4, entries={"a": {}}).build_images().tasks
    loaded.model.head = torch.nn.Linear(8, 10).eval()
    estimator = configured(*TINY)[0].estimator
    with pytest.raises(UserError, match=r"its 10 outputs are not the 62 classes.*label_mode=model"):
        check_model(estimator, loaded, tasks)
    estimator.label_mode = "model"
    assert task_terms(estimator, check_model(estimator, loaded, tasks), tasks[0]).errors.shape == (16, 10)


def test_agreement_is_that_of_scipy_and_leaves_undefined_pairs_out():
    random = np.random.default_rng(0)
    truth = random.normal(size=40)
    estimate = truth + random.normal(size=40)
    estimate[3] = np.nan
    kept = np.isfinite(estimate)
    found = agreement(estimate, truth)
    assert found[0] == pytest.approx(spearmanr(estimate[kept], truth[kept])[0])
    assert found[1] == pytest.approx(np.corrcoef(estimate[kept], truth[kept])[0, 1])
    assert found[2] == pytest.approx(np.sqrt(np.mean((estimate - truth)[kept] ** 2)))
    assert np.isnan(agreement(truth[:2], truth[:2])).all()
    assert np.isnan(agreement(np.zeros(5), truth[:5])[:2]).all()


def test_the_interval_over_tasks_is_wider_for_fewer_tasks():
    random = np.random.default_rng(1)
    truth = random.normal(size=(24, 24))
    truth = truth + truth.T
    noise = random.normal(size=(3, 24, 24))
    estimates = truth + noise + noise.transpose(0, 2, 1)
    wide, narrow = (
        task_interval(estimates[:, :count, :count], truth[:count, :count], seed=0, resamples=60)
        for count in (8, 24)
    )
    point = np.mean(
        [agreement(e[np.triu_indices(24, 1)], truth[np.triu_indices(24, 1)]) for e in estimates], 0
    )
    assert (narrow[0] <= point).all() and (point <= narrow[1]).all()
    assert wide[1, 0] - wide[0, 0] > narrow[1, 0] - narrow[0, 0]


HUB = """
import sys, torch
from experiments.models.timm_hub import TimmClassifier
for repo in sys.argv[1:]:
    try:
        loaded = TimmClassifier(name="tiny", repo=repo, revision="main").build(torch.device("cpu"))
        inputs = loaded.inputs(torch.full((2, 32, 32), 255, dtype=torch.uint8))
        outputs = loaded.model(**inputs)
        print(outputs.shape, loaded.vocabulary_size, inputs["x"].shape, inputs["x"].mean().item())
    except ValueError as error:
        print(f"{type(error).__name__}: {error}")
"""


def test_a_timm_model_of_the_hub_is_read_or_says_what_to_do(tmp_path):
    import timm

    small = {"img_size": 48, "embed_dim": 12, "depth": 1, "num_heads": 2}
    model = timm.create_model("vit_tiny_patch16_224", num_classes=7, **small)
    (tmp_path / "tiny").mkdir()
    save_file(model.state_dict(), tmp_path / "tiny" / "model.safetensors")
    described = {"input_size": [3, 48, 48], "mean": [0.5] * 3, "std": [0.25] * 3, "num_classes": 7}
    config = {"architecture": "vit_tiny_patch16_224", "num_classes": 7, "model_args": small}
    (tmp_path / "tiny" / "config.json").write_text(json.dumps(config | {"pretrained_cfg": described}))
    environment = os.environ | {"HF_HOME": str(tmp_path / "home"), "HF_TOKEN": ""}
    with serve_hub({"owner/tiny": tmp_path / "tiny"}) as endpoint:
        served = environment | {"HF_ENDPOINT": endpoint, "HF_HUB_OFFLINE": "0"}
        found, gated = hub(served, "owner/tiny", "owner/gated")
    assert found == "torch.Size([2, 7]) 7 torch.Size([2, 3, 48, 48]) 2.0"
    assert gated.startswith(
        "UserError: model.repo=owner/gated: gated on the Hugging Face hub; accept its terms"
    )
    (offline,) = hub(environment | {"HF_HUB_OFFLINE": "1"}, "timm/vit_base_patch16_224.augreg2_in21k_ft_in1k")
    assert offline.endswith("go online, or use model=glyph_vit, a small ViT that is trained here")


def hub(environment: dict[str, str], *repos: str) -> list[str]:
    """Loads models of the hub in a process of its own: the hub's address is read on import."""
    line = [sys.executable, "-c", HUB, *repos]
    done = subprocess.run(line, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
