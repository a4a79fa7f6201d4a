"""The job network_fisher on tiny models: text and images, its numbers, its refusals."""

import numpy as np
import pytest
import torch
from built import Built, domain_set
from tiny_models import loaded, markov_domain

from analysis.jobs import network_fisher as shown
from analysis.load import RunFolder
from experiments.config import Config, EstimatorConfig
from experiments.errors import UserError
from experiments.finetune import TransferConfig
from experiments.network.exact import by_depth, depth_of
from experiments.network.samples import head_name, untie
from experiments.network.settings import NetworkFisherConfig
from experiments.network_fisher import run
from experiments.store import Store
from fishersketch import exact_align
from fishersketch.layers import layer_terms, linear_layers


def config(**changed) -> Config:
    parts = {
        "settings": NetworkFisherConfig(samples=4, permutations=19, chunk_megabytes=1),
        "transfer": TransferConfig(mode="full", learning_rate=1e-2, epochs=1, batch_windows=2),
        "estimator": EstimatorConfig(num_features=2048, self_terms="plain", exact_windows=0, baselines=[]),
        "model": Built("tiny", loaded("llama")),
        "domains": Built(
            "chains", domain_set([markov_domain(name, seed) for seed, name in enumerate("abcd")])
        ),
    }
    return Config(job="network_fisher", device="cpu", **parts | changed)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("network")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FISHERSKETCH_CACHE", str(folder / "cache"))
        with Store(folder / "run", {"job": "network_fisher", "seed": 0}, "test") as store:
            run(config(), store)
    return RunFolder.open(folder / "run")


def test_every_layer_is_sketched_and_the_network_tracked(made):
    layers = made.arrays("layers")
    assert len(layers["layers"]) == made.metric("n_layers") == 2 * 7 + 1
    assert layers["alignments"].shape == (15, 4, 4)
    agreement = made.metric("agreement")
    assert agreement["network_sketch"]["rmse"] < 0.1 and agreement["head_sketch"]["rmse"] < 0.1
    assert agreement["linear_layers"]["spearman"] <= 1
    assert made.metric("n_parameters") == 2 * 9 + 3  # embedding, last norm and the untied head
    assert set(made.metric("top1")) >= {"network", "network_sketch", "head", "depth_diagonal", "random"}


def test_the_parts_of_the_decomposition_make_the_network(made):
    arrays = made.arrays("network")
    for blocks in ("parameters", "depth"):
        network, low, high = (arrays[f"{blocks}_{name}"] for name in ("network_plain", "lower", "upper"))
        assert (network >= low - 1e-9).all() and (network <= high + 1e-9).all()
        assert made.metric(f"decomposition_{blocks}.bounds_held") == 1
        assert np.allclose(arrays[f"{blocks}_network_plain"], arrays["network"])
    assert [name for name in arrays["depth_names"] if "block" in name] == ["block 0", "block 1"]
    own = arrays["depth_discrepancy"].diagonal()
    assert (own > 0).all() and (own < arrays["parameters_discrepancy"].diagonal()).all()


def test_the_head_is_that_of_the_head_alone(made):
    model = loaded("llama")
    untie(model)
    name = head_name(model)
    head = linear_layers(model.model, [name])
    tasks = []
    for seed, domain in enumerate("abcd"):
        windows = markov_domain(domain, seed).sketch[:4]
        terms = layer_terms(model.model, {"input_ids": windows}, windows, head)[name]
        group = torch.arange(4).repeat_interleave(windows.shape[1])
        tasks.append((terms[0].flatten(0, 1), terms[1].flatten(0, 1), group))
    truth = exact_align(tasks, "plain", sample_unit="sequence").joint.numpy()
    assert np.allclose(made.arrays("network")["head"], truth, atol=1e-4)


def test_a_tied_head_is_freed_and_computes_the_same():
    model = loaded("llama")
    tokens = torch.arange(8)[None]
    with torch.no_grad():
        before = model.model(input_ids=tokens).logits
        untie(model)
        after = model.model(input_ids=tokens).logits
    assert torch.equal(before, after)
    names = [name for name, _ in model.model.named_parameters()]
    assert {"lm_head.weight", "model.embed_tokens.weight"} <= set(names)


def test_it_is_shown(made):
    presentation = shown.present(made)
    assert [table.name for table in presentation.tables] == [
        *("agreement", "decomposition", "kinds", "layers"),
        *("scores", "selected_layer"),
    ]
    names = {figure.name for figure in presentation.figures}
    assert names == {"alignment_by_depth", "independence_by_depth", "gains_by_depth"}
    for figure in presentation.figures:
        assert figure.draw().axes and len(figure.alternative) > 30


def test_without_the_exact_part_and_the_head(tmp_path, monkeypatch):
    monkeypatch.setenv("FISHERSKETCH_CACHE", str(tmp_path / "cache"))
    cfg = config(
        settings=NetworkFisherConfig(samples=4, permutations=19, layers=["*.mlp.*"], exact=False),
        transfer=TransferConfig(mode="none"),
    )
    with Store(tmp_path / "run", {"job": "network_fisher", "seed": 0}, "test") as store:
        run(cfg, store)
    found = RunFolder.open(tmp_path / "run")
    assert found.metric("n_layers") == 6 and "agreement" not in found.metrics
    assert [table.name for table in shown.present(found).tables] == ["kinds", "layers"]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"estimator": EstimatorConfig(projection="hadamard")}, r"estimator\.projection=hadamard: its pairs"),
        ({"estimator": EstimatorConfig(label_mode="model")}, r"estimator\.label_mode=model: job=network_fis"),
        ({"settings": NetworkFisherConfig(layers=["*.conv"])}, r"settings\.layers: no linear layer is named"),
        ({"settings": NetworkFisherConfig(samples=100)}, r"settings\.samples=100: a has \d+ windows; raise"),
        (
            {"domains": Built("chains", domain_set([markov_domain("a", 0), markov_domain("b", 1)]))},
            "domains: 2 tasks; correlations over pairs need at least 4",
        ),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, changed, says):
    changed = {"transfer": TransferConfig(mode="none")} | changed
    with (
        Store(tmp_path / "run", {"job": "network_fisher"}, "test") as store,
        pytest.raises(UserError, match=says),
    ):
        run(config(**changed), store)


def test_settings_are_checked():
    with pytest.raises(UserError, match=r"settings\.samples=5: must be even"):
        NetworkFisherConfig(samples=5).check("settings")
    with pytest.raises(UserError, match=r"settings\.layers=\[\]: must be one pattern or more"):
        NetworkFisherConfig(layers=[]).check("settings")


def test_blocks_of_a_network():
    kernels = {
        name: torch.full((2, 2), float(n)) for n, name in enumerate(("a.0.x", "a.0.y", "a.1.x", "head"))
    }
    summed = by_depth(kernels)
    assert {name: float(kernel[0, 0]) for name, kernel in summed.items()} == {
        "block 0": 1.0,
        "block 1": 2.0,
        "head": 3.0,
    }
    assert depth_of("blocks.11.attn.qkv.weight") == 11 and depth_of("norm1.weight") is None
