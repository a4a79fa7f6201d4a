"""Relabelled tasks: the theorems' objects, their errors under any labels, and the job on a tiny model."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from saved_models import save_tiny_llama
from tiny_models import VOCABULARY, loaded, markov_domain

from experiments.config import Config, EstimatorConfig
from experiments.errors import UserError
from experiments.identifiability import IdentifiabilityConfig, run
from experiments.options import check
from experiments.relabelling.dial import turn_dial
from experiments.relabelling.identity import identity_errors
from experiments.relabelling.label_map import label_map
from experiments.relabelling.random_text import random_inputs
from experiments.relabelling.separability import separability, summarised_gaps
from experiments.relabelling.shared_inputs import shared_inputs, union
from experiments.relabelling.shared_mass import shared_mass
from experiments.relabelling.witness import exact_pair, witness, worst
from experiments.store import Store
from fishersketch import SketchSpec, exact_align, head_terms

ROOT = Path(__file__).resolve().parent.parent


def test_the_identity_and_the_factorisation_hold_in_float64():
    found = identity_errors(3, 40, seed=1)
    assert found["pairs"] == 12
    assert 0 < found["max_error"] < 1e-10
    assert 0 <= found["factorisation_error"] < 1e-12
    assert 0 < found["factor_error"] < 1e-9


@pytest.mark.parametrize("family", ["llama", "gemma2", "granite"])
def test_errors_under_the_text_s_labels_are_the_head_terms(family):
    model = loaded(family)
    windows = markov_domain("a", 0).sketch
    inputs = shared_inputs(model, windows)
    terms = head_terms(model.model, {"input_ids": windows}, windows)
    assert torch.allclose(inputs.activations, terms.activations, atol=1e-6)
    assert torch.equal(inputs.group, terms.group)
    assert torch.allclose(inputs.errors(inputs.labels), terms.errors, atol=1e-6)
    exact = inputs.double(model)
    assert exact.raw.dtype == torch.float64
    assert torch.allclose(exact.errors(inputs.labels), terms.errors.double(), atol=1e-5)


@pytest.mark.parametrize("family", ["untied", "gemma2"])
def test_rotated_errors_keep_every_inner_product(family):
    model = loaded(family)
    inputs = shared_inputs(model, markov_domain("a", 0, train=3).sketch).double(model)
    drawn = label_map(inputs.labels, VOCABULARY, "a", 0)
    rotated = inputs.rotated(union([drawn.types, drawn.replacements]))
    tasks = [inputs.labels, drawn.relabel(inputs.labels, 0.4)]
    for left in tasks:
        for right in tasks:
            direct = inputs.errors(left) @ inputs.errors(right).T
            assert torch.allclose(rotated.errors(left) @ rotated.errors(right).T, direct, atol=1e-12)


def test_a_label_map_is_a_bijection_and_the_dial_keeps_what_it_kept():
    labels = torch.tensor([3, 9, 3, 4, 11, 9])
    drawn = label_map(labels, 20, "a", 0)
    assert drawn.types.tolist() == [3, 4, 9, 11]
    assert len(set(drawn.replacements.tolist()) | {3, 4, 9, 11}) == 8
    kept = [set((drawn.moved(x) == drawn.types).nonzero().flatten().tolist()) for x in (0, 0.25, 0.5, 1)]
    assert [len(part) for part in kept] == [0, 1, 2, 4]
    assert kept[0] < kept[1] < kept[2] < kept[3]
    moved = drawn.relabel(labels, 0.0)
    assert len(moved.unique()) == 4 and not torch.isin(moved, labels).any()
    assert torch.equal(drawn.relabel(labels, 1.0), labels)
    assert not torch.equal(label_map(labels, 20, "a", 1).replacements, drawn.replacements)


def test_a_label_map_needs_room():
    with pytest.raises(UserError, match=r"domain a: 4 of 7 tokens are labels.*settings\.windows"):
        label_map(torch.arange(4), 7, "a", 0)


@pytest.fixture(scope="module")
def random_witness():
    inputs = random_inputs(192, 8, 40, label_types=12, seed=0)
    spec = SketchSpec(8, 40, num_features=2048, projection="rademacher")
    return inputs, witness(inputs, inputs, inputs, "random", 0, spec, "float32", components=6)


def test_the_witness_has_equal_representations_and_orthogonal_gradients(random_witness):
    _, found = random_witness
    assert found["identical"] and found["common_labels"] == 0
    for name in ("cka", "cka_debiased", "rsa", "svcca"):
        assert found[name] == pytest.approx(1, abs=1e-9)
    exact = found["restricted"]["float64"]
    assert exact["joint"] == 0 and exact["error"] == 0
    assert exact["activation"] == pytest.approx(1, abs=1e-12)
    sketch = found["restricted"]["sketch"]
    assert sketch["joint"] != 0 and abs(sketch["joint"]) < 5 * sketch["stderr_sketch"]
    full = found["full"]
    assert full["float64"]["joint"] > 0.02
    assert abs(full["sketch"]["joint"] - full["float64"]["joint"]) < 5 * full["sketch"]["stderr_sketch"]


def test_worst_takes_what_is_furthest_from_the_theorem(random_witness):
    _, found = random_witness
    pairs = {"float64": {**found["restricted"]["float64"], "joint": -0.5}}
    other = {**found, "identical": False, "cka": 0.75, "restricted": {**found["restricted"], **pairs}}
    both = worst({"a": found, "b": other})
    assert (both["joint"], both["cka"], both["identical"]) == (-0.5, 0.75, False)


def test_the_shares_of_the_shared_mass(random_witness):
    inputs, found = random_witness
    mass = found["mass"]
    assert mass["joint"] == pytest.approx(found["full"]["float64"]["joint"], abs=1e-12)
    assert mass["share_mass"] + mass["share_mixed"] + mass["share_labels"] == pytest.approx(1, abs=1e-9)
    assert mass["joint_within"] == 0
    probability = torch.softmax(inputs.raw, dim=1)
    outside = 1 - probability[:, inputs.labels.unique()].sum(1).mean()
    assert mass["outside_first"] == pytest.approx(float(outside), abs=1e-12)
    drawn = label_map(inputs.labels, 40, "random", 0)
    moved = drawn.relabel(inputs.labels, 0.0)
    rotated = inputs.rotated(union([drawn.types, drawn.replacements]))
    sets = (drawn.types, drawn.replacements.sort().values)
    swapped = shared_mass(inputs.activations, rotated, (moved, inputs.labels), sets[::-1])
    assert swapped["joint_only_third"] == pytest.approx(mass["joint_only_third"], abs=1e-12)
    assert swapped["outside_second"] == pytest.approx(mass["outside_first"], abs=1e-12)


def test_the_dial_moves_the_joint_alignment_and_no_representation():
    inputs = random_inputs(192, 8, 60, label_types=20, seed=0)
    overlaps = [0.0, 0.5, 1.0]
    dial = turn_dial(inputs, inputs.activations, "random", overlaps, [0, 1], components=6)
    assert dial.token_overlap[:, 0].tolist() == [0, 0] and dial.token_overlap[:, 2].tolist() == [1, 1]
    for kind in ("restricted", "full"):
        joint = dial.alignments[kind]["joint"]
        assert (joint[:, 1] > joint[:, 0]).all() and (joint[:, 2] > joint[:, 1]).all()
        assert joint[:, 2] == pytest.approx([1, 1], abs=1e-12)
        assert dial.alignments[kind]["activation"] == pytest.approx(1, abs=1e-12)
    assert (dial.alignments["restricted"]["joint"][:, 0] == 0).all()
    for values in dial.representations.values():
        assert values == pytest.approx(1, abs=1e-9)
    drawn = label_map(inputs.labels, 60, "random", 1)
    other = inputs.errors(drawn.relabel(inputs.labels, 0.5))
    pair = exact_pair(
        (inputs.activations, inputs.errors(inputs.labels), None), (inputs.activations, other, None)
    )
    assert dial.alignments["full"]["joint"][1, 1] == pytest.approx(pair["joint"], abs=1e-12)


def test_separability_tells_dependence_from_none():
    generator = torch.Generator().manual_seed(0)
    a, e = (torch.randn(256, size, generator=generator, dtype=torch.float64).clamp(-2, 2) for size in (6, 9))
    group = torch.arange(256) // 16
    free = separability(a, e, group, 19, "free", seed=0)
    scale = a.norm(dim=1, keepdim=True).square()
    bound = separability(a, e * scale, group, 19, "bound", seed=0)
    assert free.p > 0.05
    assert bound.p == 0.05 and bound.squared > bound.null.max()
    assert free.plain > free.squared
    task = [(a, e, group)]
    assert free.squared == float(exact_align(task, "split").squared_gap)
    both = summarised_gaps({"free": free, "bound": bound})
    assert both["p"] == free.p
    assert both["by_domain"]["bound"]["gap"] == pytest.approx(bound.squared**0.5)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"overlaps": [0.5, 0.0]}, r"settings\.overlaps=\[0.5, 0.0\]: must be two or more rising numbers"),
        ({"label_seeds": [1]}, r"settings\.label_seeds=\[1\]: must be two or more different seeds"),
        ({"overlaps": [0.0, 1.5]}, r"settings\.overlaps.*1\.5"),
    ],
)
def test_settings_are_checked(settings, match):
    with pytest.raises(UserError, match=match):
        check(IdentifiabilityConfig(**settings), "settings")


@pytest.fixture(scope="module")
def workshop(tmp_path_factory):
    folder = tmp_path_factory.mktemp("identifiability")
    save_tiny_llama(folder / "model")
    (folder / "text.txt").write_text(" ".join(f"w{(7 * n * n + n) % 61}" for n in range(900)))
    for group, name, body in (
        (
            "model",
            "tiny",
            f"defaults: [/schema/model/local_causal_lm@_here_, _self_]\npath: {folder}/model\n",
        ),
        (
            "domains",
            "words",
            "defaults: [/schema/domains/set@_here_, _self_]\nname: words\nwindow_tokens: 16\n"
            "train_windows: 6\nsketch_windows: 6\nheld_out_windows: 1\npiece_characters: 64\nentries:\n"
            f"  words: {{kind: local_text, group: words, licence: none, path: {folder}/text.txt}}\n",
        ),
    ):
        (folder / "conf" / group).mkdir(parents=True)
        (folder / "conf" / group / f"{name}.yaml").write_text(body)
    return folder


def run_py(folder, *arguments):
    line = [sys.executable, "run.py", "--config-dir", str(folder / "conf"), "experiment=identifiability"]
    line += ["model=tiny", "domains=words", "domains.include=null", "smoke=true", f"store={folder}/runs"]
    env = os.environ | {"FISHERSKETCH_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
    return subprocess.run([*line, *arguments], cwd=ROOT, env=env, capture_output=True, text=True, timeout=200)


def test_the_job_runs_whole_on_a_tiny_model(workshop):
    done = run_py(
        workshop,
        "settings.windows=6",
        "settings.label_seeds=[0,1]",
        "settings.overlaps=[0,0.5,1]",
        "settings.permutations=3",
        "settings.identity_tasks=2",
        "settings.svcca_components=6",
        "estimator.num_features=256",
    )
    assert done.returncode == 0, done.stderr
    assert "Theorem 3.2" in done.stdout
    (folder,) = (path.parent for path in (workshop / "runs").rglob("manifest.json"))
    metrics = json.loads((folder / "metrics.json").read_text())
    assert metrics["witness"]["joint"] == 0 and metrics["witness"]["identical"] is True
    assert metrics["witness"]["joint_full"] > 0
    assert metrics["n_tokens"] == 96
    assert metrics["identity"]["max_error"] < 1e-10
    assert metrics["dial"]["restricted"]["joint"][0] == 0
    assert metrics["dial"]["full"]["joint"][2] == pytest.approx(1)
    assert metrics["dial"]["full"]["joint"][0] == pytest.approx(metrics["witness"]["joint_full"], abs=0.05)
    tables = {path.name for path in (folder / "tables").glob("*.csv")}
    assert tables == {f"{n}.csv" for n in ("identity", "witness", "shared_mass", "dial", "separability")}
    assert {path.name for path in (folder / "figures").iterdir()} == {"overlap_dial.png", "overlap_dial.pdf"}


def test_the_job_refuses_other_samples_than_tokens_of_the_text(tmp_path):
    estimator = EstimatorConfig(label_mode="model")
    cfg = Config(job="identifiability", estimator=estimator, settings=IdentifiabilityConfig())
    with Store(tmp_path / "run", {}, "") as store:
        with pytest.raises(UserError, match=r"estimator\.label_mode=model: the job relabels single tokens"):
            run(cfg, store)
