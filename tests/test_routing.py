"""Routing: what a router may look at, its measures, and the job on a tiny model."""

import numpy as np
import pytest
import torch
from built import Built, domain_set
from tiny_models import VOCABULARY, loaded, markov_domain

from analysis.jobs import routing as shown
from analysis.load import RunFolder
from experiments.config import Config, EstimatorConfig
from experiments.errors import UserError
from experiments.finetune import TransferConfig, transfer_matrix
from experiments.routes.adapters import adapter_losses
from experiments.routes.routers import picks, signature_scores, token_overlap
from experiments.routing import RoutingConfig, run
from experiments.signatures import signatures_of
from experiments.store import Store
from fishersketch import align

LORA = {"mode": "lora", "learning_rate": 2e-2, "epochs": 4, "batch_windows": 2}
ESTIMATOR = {"num_features": 512, "exact_windows": 0, "extra_streams": ["mean_gradient"], "baselines": []}


def chains(names: str = "abc", **sizes):
    return [markov_domain(name, seed, **sizes) for seed, name in enumerate(names)]


def config(domains, **changed) -> Config:
    settings = {"settings": RoutingConfig(prompt_tokens=6), "transfer": TransferConfig(**LORA)} | changed
    return Config(
        job="routing",
        device="cpu",
        model=Built("tiny", loaded("llama")),
        domains=Built("chains", domain_set(domains)),
        estimator=EstimatorConfig(**ESTIMATOR),
        **settings,
    )


@pytest.mark.parametrize("mode", ["data", "model"])
def test_a_router_sees_the_prompt_alone(store, domains, mode):
    cfg, model = EstimatorConfig(**ESTIMATOR, label_mode=mode), loaded("llama")
    signatures = signatures_of(cfg, model, domains, 0, store)
    inputs = torch.cat([domain.held_out for domain in domains])
    other = inputs.clone()
    other[:, 7:] = (other[:, 7:] + 1) % VOCABULARY
    first, second = (signature_scores(cfg, model, signatures, part[:, :7], 0) for part in (inputs, other))
    assert len(first) == (4 if mode == "data" else 3) and all(
        np.array_equal(first[name], second[name]) for name in first
    )
    assert all(name.endswith("_model_labels") == (mode == "model") for name in first)
    longer = signature_scores(cfg, model, signatures, inputs, 0)
    assert not np.array_equal(longer[next(iter(longer))], first[next(iter(first))])


def test_scores_are_the_alignments_with_the_sources(store, domains):
    cfg, model = EstimatorConfig(**ESTIMATOR), loaded("llama")
    signatures = signatures_of(cfg, model, domains, 0, store)
    # A source's own windows as one prompt each: the pick of a pooled signature is the source itself.
    scores = signature_scores(cfg, model, signatures, domains[1].train[:1], 0)
    assert scores["joint"].shape == (1, 3)
    pooled = align([*signatures, signatures[1]], "plain")
    assert int(pooled.joint[3, :3].argmax()) == 1


def test_an_undefined_score_is_never_picked():
    found = picks({"joint": np.array([[np.nan, -0.5, -0.7], [0.1, np.nan, 0.3]])})
    assert found["joint"].tolist() == [1, 2]


def test_token_overlap_is_the_cosine_of_counts(domains):
    prompts = torch.stack([domains[0].sketch[0], domains[2].sketch[3]])
    found = token_overlap(prompts, domains, VOCABULARY)
    a = np.bincount(prompts[1], minlength=VOCABULARY)
    b = np.bincount(domains[1].sketch.flatten(), minlength=VOCABULARY)
    assert found[1, 1] == pytest.approx(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def test_adapter_losses_are_those_of_the_transfer_matrix_and_are_kept(store, domains, monkeypatch):
    cfg, model = TransferConfig(**LORA, seeds=[0, 1]), loaded("llama")
    inputs = torch.cat([domain.held_out for domain in domains])
    base, tuned = adapter_losses(cfg, model, domains, inputs, store)
    matrix = transfer_matrix(cfg, model, domains, store)
    assert np.allclose(base.mean(-1), matrix.base_loss.flatten(), atol=1e-5)
    wanted = matrix.tuned_loss.mean(axis=0).reshape(3, -1)
    assert np.allclose(tuned.mean(-1), wanted, atol=1e-5)
    monkeypatch.setattr("experiments.routes.adapters.fine_tune", None)
    again = adapter_losses(cfg, model, domains, inputs, store)
    assert np.array_equal(again[1], tuned)


def test_the_job_runs_and_is_shown(tmp_path, monkeypatch):
    monkeypatch.setenv("FISHERSKETCH_CACHE", str(tmp_path / "cache"))
    with Store(tmp_path / "run", {"job": "routing", "seed": 0}, "test") as store:
        run(config(chains(held_out=8)), store)
    made = RunFolder.open(tmp_path / "run")
    routers = {"joint", "activation", "error", "mean_gradient"}
    routers |= {f"{name}_model_labels" for name in routers - {"activation"}} | {
        "token_frequency",
        "prompt_loss",
    }
    assert set(made.metric("accuracy")) == routers | {"random"}
    assert made.metric("accuracy.random") == pytest.approx(1 / 3) and made.metric("n") == 24
    arrays, loss = made.arrays("routing"), made.metric("loss")
    completion = arrays["completion_loss"]
    joint = arrays["picks"][arrays["routers"].tolist().index("joint")]
    assert made.metric("accuracy.joint") == pytest.approx((joint == arrays["home"]).mean())
    assert loss["joint"] == pytest.approx(completion[joint, np.arange(24)].mean())
    assert loss["best_single"] == pytest.approx(completion.mean(axis=1).min())
    assert loss["oracle"] <= min(value for name, value in loss.items() if name != "always_base")
    assert made.metric("perplexity.joint") == pytest.approx(np.exp(loss["joint"]))
    # An adapter is worth having on its own domain.
    assert loss["own_domain"] < loss["always_base"]
    presentation = shown.present(made)
    assert [table.name for table in presentation.tables] == ["accuracy", "perplexity", "confusion"]
    assert presentation.tables[2].frame[["a", "b", "c"]].to_numpy().sum() == 24
    for figure in presentation.figures:
        assert figure.draw().axes and len(figure.alternative) > 30


@pytest.mark.parametrize(
    ("names", "changed", "says"),
    [
        ("abc", {"transfer": TransferConfig(mode="none")}, "transfer: job=routing needs a tuned model"),
        ("abc", {"transfer": TransferConfig(mode="head")}, "transfer: job=routing needs a tuned model"),
        ("a", {}, "domains=chains: has 1 domain; a route needs at least 2"),
        ("abc", {"settings": RoutingConfig(prompt_tokens=12)}, r"settings\.prompt_tokens=12: leaves no comp"),
    ],
)
def test_what_cannot_be_routed_is_refused(tmp_path, names, changed, says):
    with (
        Store(tmp_path / "run", {"job": "routing"}, "test") as store,
        pytest.raises(UserError, match=says),
    ):
        run(config(chains(names), **changed), store)


def test_label_modes_hold_the_data():
    with pytest.raises(UserError, match=r"settings\.label_modes=\['model'\]: must be \[data\] or"):
        RoutingConfig(label_modes=["model"]).check("settings")
