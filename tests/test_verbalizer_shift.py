"""Verbalizers on fixed prompts: prompts, answers, scores that tie, the truth, and the job on a tiny model."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from composed import composed
from hub_server import serve_hub
from saved_models import save_tiny_llama, word_tokenizer
from tiny_models import loaded, markov_domain

from experiments.config import Config
from experiments.errors import UserError
from experiments.finetune import TransferConfig
from experiments.options import check
from experiments.relabelling.random_text import random_inputs
from experiments.relabelling.shared_inputs import shared_inputs
from experiments.scores import target_scores
from experiments.store import Store
from experiments.verbalizer_shift import VerbalizerShiftConfig, run
from experiments.verbalizers.estimators import ERRORS, alignment_scores, label_errors, label_free_scores
from experiments.verbalizers.mechanism import mechanism, swapped_scores
from experiments.verbalizers.prompts import TaskConfig, answer_tokens, prompts_of
from experiments.verbalizers.truth import answer_gains

ROOT = Path(__file__).resolve().parent.parent
TOKENS = {"a": [4, 5], "b": [6, 7], "c": [9, 8], "d": [5, 4]}


@pytest.fixture(scope="module")
def tokens():
    return {name: torch.tensor(pair) for name, pair in TOKENS.items()}


@pytest.fixture(scope="module")
def prompts():
    one, two = (markov_domain(name, seed, train=12, held_out=6) for name, seed in (("one", 0), ("two", 1)))
    task = TaskConfig(classes=["one", "two"], before="w1", after="w2 w3")
    return prompts_of("task", task, [two, one], word_tokenizer(adds_bos=False))


def answered(prompts, pair, model=None):
    windows = torch.cat([prompts.train, pair[prompts.train_classes][:, None]], dim=1)
    return shared_inputs(model or loaded("untied"), windows, last_only=True)


def test_prompts_frame_the_texts_and_classes_alternate(prompts):
    one, two = markov_domain("one", 0, train=12, held_out=6), markov_domain("two", 1, train=12, held_out=6)
    assert prompts.train.shape == (24, 1 + 13 + 2) and prompts.held_out.shape == (12, 16)
    assert prompts.train_classes.tolist() == [0, 1] * 12
    assert torch.equal(prompts.train[0::2, 1:14], one.train)
    assert torch.equal(prompts.held_out[1::2, 1:14], two.held_out)
    assert prompts.train[:, 0].unique().tolist() == [3] and prompts.train[:, -1].unique().tolist() == [5]


def test_a_leading_token_stays_in_front():
    domain = markov_domain("one", 0)
    domains = [domain, markov_domain("two", 1)]
    task = TaskConfig(classes=["one", "two"], before="w1", after="w2")
    found = prompts_of("task", task, domains, word_tokenizer(adds_bos=True))
    assert found.train[0].tolist() == [0, 3, *domain.train[0, 1:].tolist(), 4]


def test_words_of_several_tokens_and_equal_words_are_refused_by_name():
    tokenizer = word_tokenizer(adds_bos=False)
    assert answer_tokens({"a": ["w1", "w5"]}, tokenizer)["a"].tolist() == [3, 7]
    with pytest.raises(UserError, match=r"settings\.verbalizers\.b: 'w1 w2' is 2 tokens"):
        answer_tokens({"a": ["w1", "w5"], "b": ["w3", "w1 w2"]}, tokenizer)
    with pytest.raises(UserError, match=r"settings\.verbalizers\.a=\['w1'\]: must be two different words"):
        answer_tokens({"a": ["w1"]}, tokenizer)
    with pytest.raises(UserError, match=r"settings\.verbalizers\.a.*both are the same token"):
        answer_tokens({"a": ["unknown", "foreign"]}, tokenizer)


def test_a_task_names_two_domains_that_exist():
    with pytest.raises(UserError, match=r"tasks\.x\.classes=\['one'\]: must name two"):
        check(TaskConfig(classes=["one"], after="?"), "tasks.x")
    task = TaskConfig(classes=["one", "three"], after="w2")
    with pytest.raises(UserError, match=r"settings\.tasks\.x\.classes: there is no domain 'three'"):
        prompts_of("x", task, [markov_domain("one", 0)], word_tokenizer(adds_bos=False))


def test_settings_need_tasks_and_three_verbalizers():
    with pytest.raises(UserError, match=r"settings\.tasks: must name a task"):
        check(VerbalizerShiftConfig(), "settings")
    tasks = {"x": TaskConfig(classes=["one", "two"], after="?")}
    with pytest.raises(UserError, match=r"settings\.verbalizers: has 1"):
        check(VerbalizerShiftConfig(tasks=tasks, verbalizers={"a": ["x", "y"]}), "settings")


def test_activations_are_the_same_bits_whatever_the_verbalizer(prompts, tokens):
    first, *others = [answered(prompts, pair) for pair in tokens.values()]
    assert len(first.activations) == len(prompts.train)
    assert all(torch.equal(first.activations, other.activations) for other in others)
    assert not torch.equal(first.labels, others[0].labels)


@pytest.mark.parametrize("kind", ERRORS)
def test_scores_that_cannot_differ_tie(prompts, tokens, kind):
    inputs = answered(prompts, tokens["a"]).double(loaded("untied"))
    scores = alignment_scores(label_errors(inputs, prompts.train_classes, tokens, kind), inputs.activations)
    scores |= label_free_scores(inputs, inputs.activations, prompts.train_classes, tokens, components=4)
    off = ~np.eye(4, dtype=bool)
    gain = np.arange(16.0).reshape(4, 4)
    for name in ("activation", "cka", "rsa", "svcca", "logme"):
        assert len(np.unique(scores[name][off])) == 1
        assert target_scores(scores[name], gain).top1 == pytest.approx(1 / 3)
    assert scores["activation"][0, 1] == pytest.approx(1)
    # LEEP depends on the source alone, and not on the order of its words: "d" is "a" with its words swapped.
    assert len(np.unique(scores["leep"][0])) == 1 and len(np.unique(scores["leep"][:, 0])) == 3
    if kind == "own":
        assert scores["joint"][0, 1] == 0


def test_errors_of_the_vocabulary_are_those_of_the_head(prompts, tokens):
    inputs = answered(prompts, tokens["a"]).double(loaded("untied"))
    found = label_errors(inputs, prompts.train_classes, tokens, "vocabulary")
    direct = {name: inputs.errors(pair[prompts.train_classes]) for name, pair in tokens.items()}
    for a in tokens:
        for b in tokens:
            assert torch.allclose(found[a] @ found[b].T, direct[a] @ direct[b].T, atol=1e-12)


def test_the_swapped_form_is_aligned_as_a_source_of_its_own(prompts, tokens):
    inputs = answered(prompts, tokens["a"]).double(loaded("untied"))
    found = swapped_scores(inputs, prompts.train_classes, tokens)
    errors = {
        "a": inputs.errors(tokens["a"][prompts.train_classes]),
        "swapped": inputs.errors(tokens["d"][prompts.train_classes]),
    }
    direct = alignment_scores(errors, inputs.activations)
    assert found["joint"][0] == pytest.approx(direct["joint"][0, 1], abs=1e-10)
    assert found["mean_gradient"][0] == pytest.approx(direct["mean_gradient"][0, 1], abs=1e-10)


def test_swapped_words_keep_the_squares_and_turn_the_mean_gradient_round(tokens):
    noise = random_inputs(40, 6, 20, label_types=2, seed=0)
    classes = torch.arange(40) % 2
    apart = (2.0 * classes - 1)[:, None] + 0.1 * noise.activations
    inputs = replace(noise, activations=apart, raw=torch.zeros_like(noise.raw))
    found = swapped_scores(inputs, classes, tokens)
    assert (found["joint"] > 0.95).all() and (found["mean_gradient"] < -0.95).all()


def test_the_mechanism_counts_what_outranks_the_candidates_and_what_opposes():
    mask = ~np.eye(3, dtype=bool)
    signed = np.array([[1.0, -0.6, 0.2], [-0.6, 1.0, -0.3], [0.2, -0.3, 1.0]])
    scores = {"joint": signed**2, "mean_gradient": signed}
    swapped = {"joint": np.array([0.9, 0.8, 0.05]), "mean_gradient": np.array([-0.9, 0.6, -0.2])}
    gain = np.array([[1.0, -0.1, 0.2], [0.3, 2.0, -0.4], [0.5, 0.6, 3.0]])
    found = mechanism(scores, swapped, gain, -gain, mask)
    assert found["joint_prefers_swapped"] == pytest.approx(2 / 3)
    assert found["mean_gradient_prefers_swapped"] == pytest.approx(1 / 3)
    assert (found["gain_own"], found["gain_swapped"]) == (2.0, -2.0)
    assert found["gain_others"] == pytest.approx(1.1 / 6)
    assert found["negative_gains"] == pytest.approx(2 / 6)
    # By squares the picks are 1, 0 and 1; by sign 2, 2 and 0.
    assert found["joint_pick_opposes"] == 1 and found["mean_gradient_pick_opposes"] == pytest.approx(1 / 3)
    assert found["joint_pick_gain"] == pytest.approx((0.3 - 0.1 - 0.4) / 3)
    assert found["mean_gradient_pick_gain"] == pytest.approx((0.5 + 0.6 + 0.2) / 3)
    assert (found["joint_with_signed"], found["joint_with_size"]) == (-1, 1)


@pytest.mark.parametrize("mode", ["head", "lora", "full"])
def test_training_on_a_verbalizer_lowers_its_loss_and_raises_its_opposite_s(prompts, tokens, mode):
    model = loaded("untied")
    before = {name: value.clone() for name, value in model.model.state_dict().items()}
    cfg = TransferConfig(mode=mode, learning_rate=5e-3, batch_windows=8, epochs=6, seeds=[0, 1])
    pairs = {name: tokens[name] for name in ("a", "b", "d")}
    losses = answer_gains(cfg, model, [prompts], pairs)
    assert losses["base"].shape == (1, 2, 3) and losses["tuned"].shape == (2, 1, 3, 2, 3)
    gain = losses["base"][None] - losses["tuned"]
    assert (gain[:, 0, [0, 1, 2], 0, [0, 1, 2]] > 0.05).all()
    # "d" is "a" with its words swapped.
    assert losses["tuned"][:, :, :, 1, 0] == pytest.approx(losses["tuned"][:, :, :, 0, 2])
    assert not np.array_equal(losses["tuned"][0], losses["tuned"][1])
    after = model.model.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())


def test_a_diverging_source_is_named(prompts, tokens):
    cfg = TransferConfig(mode="head", learning_rate=1e38, batch_windows=2, epochs=3, seeds=[0])
    with pytest.raises(UserError, match=r"transfer\.learning_rate=1e\+38: task with a: its training loss is"):
        answer_gains(cfg, loaded("untied"), [prompts], tokens)


def test_the_job_needs_gains(tmp_path):
    cfg = Config(
        job="verbalizer_shift", transfer=TransferConfig(mode="none"), settings=VerbalizerShiftConfig()
    )
    with Store(tmp_path / "run", {}, "") as store:
        with pytest.raises(UserError, match=r"transfer\.mode=none: the job needs gains"):
            run(cfg, store)


TINY_MODEL = "defaults: [/schema/model/local_causal_lm@_here_, _self_]\npath: {folder}/model\n"
TINY_SHIFT = (
    "# @package _global_\ndefaults:\n"
    "  - /schema/settings/verbalizer_shift@settings\n  - override /model: tiny\n"
    "  - override /domains: {domains}\n  - override /transfer: head\n  - _self_\njob: verbalizer_shift\n"
    "settings:\n  svcca_components: 3\n"
    "  tasks: {{task: {{classes: [{classes}], before: w1, after: w2}}}}\n"
    "  verbalizers: {{a: [w3, w4], b: [w5, w6], c: [w7, w8]}}\n"
)
SHORT = [
    "window_tokens=8",
    "train_windows=6",
    "sketch_windows=6",
    "held_out_windows=4",
    "piece_characters=64",
]


def words(number: int, kind: int = 0) -> str:
    return " ".join(f"w{50 * number + 10 * kind + (7 * n * n + (kind + 1) * n) % 61}" for n in range(900))


def run_tiny(folder: Path, bodies: dict[str, str], **environment: str) -> tuple[Path, dict]:
    """Runs the job on a tiny model; gives its run folder and its metrics."""
    save_tiny_llama(folder / "model")
    for name, body in ({"model/tiny": TINY_MODEL.format(folder=folder)} | bodies).items():
        path = folder / "conf" / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(body)
    line = [sys.executable, "run.py", "--config-dir", str(folder / "conf"), "experiment=tiny_shift"]
    line += ["smoke=true", "transfer.seeds=[0,1]", f"store={folder}/runs"]
    line += [f"domains.{setting}" for setting in SHORT]
    env = os.environ | {"FISHERSKETCH_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1"} | environment
    done = subprocess.run(line, cwd=ROOT, env=env, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    (found,) = (path.parent for path in (folder / "runs").rglob("manifest.json"))
    return found, json.loads((found / "metrics.json").read_text())


def test_the_job_runs_whole_on_a_tiny_model(tmp_path):
    entries = ""
    for number, name in enumerate(("low", "high")):
        (tmp_path / f"{name}.txt").write_text(words(number))
        entries += f"  {name}: {{kind: local_text, group: g, licence: none, path: {tmp_path}/{name}.txt}}\n"
    domains = f"defaults: [/schema/domains/set@_here_, _self_]\nname: words\nentries:\n{entries}"
    shift = TINY_SHIFT.format(domains="words", classes="low, high")
    folder, metrics = run_tiny(tmp_path, {"domains/words": domains, "experiment/tiny_shift": shift})
    assert metrics["activations_identical"] is True
    assert metrics["activation_min"] == metrics["activation_max"] == pytest.approx(1)
    assert metrics["random_top1"] == metrics["top1"]["activation"] == pytest.approx(1 / 2)
    assert metrics["n_targets"] == 3 and metrics["n_seeds"] == 2
    assert {"joint", "joint_own", "joint_verbalizers", "mean_gradient", "leep", "logme"} <= set(
        metrics["top1"]
    )
    assert {path.stem for path in (folder / "tables").glob("*.csv")} == {"scores", "swapped", "mechanism"}
    assert {path.stem for path in (folder / "figures").glob("*.png")} == {"top1", "gain_by_score"}


def test_labelled_data_sets_of_the_hub_take_the_place_of_packages(tmp_path):
    repos = {}
    for start, (repo, field) in enumerate((
        ("stanfordnlp/sst2", "sentence"),
        ("stanfordnlp/imdb", "text"),
        ("fancyzhx/ag_news", "text"),
    )):
        repos[repo] = tmp_path / repo
        repos[repo].mkdir(parents=True)
        rows = [{field: words(label, start), "label": label} for label in (0, 1, 2)]
        (repos[repo] / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    shift = TINY_SHIFT.format(domains="labelled_hub", classes="sst2_negative, sst2_positive")
    with serve_hub(repos) as endpoint:
        environment = {"HF_HOME": str(tmp_path / "home"), "HF_ENDPOINT": endpoint, "HF_HUB_OFFLINE": "0"}
        _, metrics = run_tiny(tmp_path, {"experiment/tiny_shift": shift}, HF_TOKEN="", **environment)
    assert metrics["domains"] == list(composed("domains", "labelled_hub").entries)
    assert metrics["n_targets"] == 3
