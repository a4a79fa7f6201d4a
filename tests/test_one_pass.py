"""One pass over a domain's windows: what it makes, what it does not make again, and what depends on what."""

import threading
import time
from dataclasses import dataclass, field, fields, replace

import pytest
import torch
from safetensors.torch import load_file, save_file

from experiments.artefacts import ArtefactCache
from experiments.baselines import BASELINES, baseline_matrices, read_summary
from experiments.config import BASELINES as NAMES
from experiments.config import EstimatorConfig
from experiments.one_pass import Product, make_products
from experiments.signatures import merged, pass_over, provenance, sketch_spec
from experiments.store import Store
from experiments.streaming import stream_terms
from fishersketch import FisherSketch, HeadTerms
from fishersketch.baselines import (
    LabelCounter,
    LabelMeansCollector,
    LargestErrors,
    exact_diagonal_fisher_cosines,
    exact_mean_gradient_cosines,
    linear_cka,
    paired_label_means,
)
from tests.tiny_models import loaded, markov_domain

PARTS = [slice(0, 2), slice(2, 5)]


@dataclass
class Adding:
    """A consumer that adds up activations."""

    total: torch.Tensor = field(default_factory=lambda: torch.zeros(1))

    def update(self, terms):
        self.total = self.total + terms.activations.sum()

    def save(self, path):
        save_file({"total": self.total}, path)


class Passes:
    """Windows 0, 1, ... whose activations are their numbers, and a count of the passes over each part."""

    def __init__(self, seconds=0.0):
        self.parts, self.seconds = [], seconds

    def __call__(self, part):
        self.parts.append((part.start, part.stop))
        for window in range(part.start, part.stop):
            time.sleep(self.seconds)
            one = torch.tensor([[float(window)]])
            yield HeadTerms(one, one, torch.tensor([window]), torch.tensor([0]))


def product(name, start, stop):
    return Product("sums", {"name": name}, slice(start, stop), Adding)


def totals(paths):
    return [float(load_file(path)["total"]) for path in paths]


def test_one_pass_makes_all_that_is_missing_and_only_that(tmp_path):
    cache, passes = ArtefactCache(tmp_path), Passes()
    products = [product("first", 0, 2), product("rest", 2, 5), product("whole", 0, 5)]
    assert totals(make_products(products, PARTS, passes, cache)) == [1, 9, 10]
    assert passes.parts == [(0, 2), (2, 5)]
    assert totals(make_products(products, PARTS, passes, cache)) == [1, 9, 10]
    assert len(passes.parts) == 2
    more = [*products, product("rest again", 2, 5)]
    assert totals(make_products(more, PARTS, passes, cache)) == [1, 9, 10, 9]
    assert passes.parts[2:] == [(2, 5)]


def test_two_that_want_the_same_share_one_pass(tmp_path):
    passes, found = Passes(seconds=0.05), []
    products = [product("rest", 2, 5), product("whole", 0, 5)]
    threads = [
        threading.Thread(
            target=lambda: found.append(
                totals(make_products(products, PARTS, passes, ArtefactCache(tmp_path)))
            )
        )
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[9, 10]] * 3
    assert passes.parts == [(0, 2), (2, 5)]


def test_a_pass_that_fails_leaves_nothing_that_looks_finished(tmp_path):
    def broken(part):
        yield from Passes()(part)
        raise RuntimeError("out of memory")

    products = [product("first", 0, 2), product("whole", 0, 5)]
    with pytest.raises(RuntimeError, match="out of memory"):
        make_products(products, PARTS, broken, ArtefactCache(tmp_path))
    assert totals(make_products(products, PARTS, Passes(), ArtefactCache(tmp_path))) == [1, 10]


@pytest.fixture(scope="module")
def model():
    return loaded("llama")


@pytest.fixture(scope="module")
def domains():
    return [markov_domain(f"domain {k}", k) for k in range(3)]


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("FISHERSKETCH_CACHE", str(tmp_path / "cache"))
    with Store(tmp_path / "run", {}, "test") as opened:
        yield opened


CFG = EstimatorConfig(num_features=64, exact_windows=2, baselines=list(NAMES))


def made(store):
    return {path: path.stat().st_mtime_ns for path in store.cache.root.rglob("*.safetensors")}


def test_the_names_in_the_config_are_the_baselines_there_are():
    assert set(NAMES) == set(BASELINES)


@pytest.mark.parametrize("label_mode", ["data", "model"])
def test_a_pass_gives_what_sketch_and_collectors_give_alone(model, domains, store, label_mode):
    cfg = replace(CFG, label_mode=label_mode)
    found = pass_over(cfg, model, domains, 0, store)
    assert found.summaries.keys() == {"label_counts", "label_means", "largest_errors"}
    for number, domain in enumerate(domains):
        sketch = FisherSketch(sketch_spec(cfg, model, 0), provenance(cfg, model))
        collectors = {
            "label_counts": LabelCounter(),
            "label_means": LabelMeansCollector(),
            "largest_errors": LargestErrors(),
        }
        for part in (slice(0, 2), slice(2, None)):
            for terms in stream_terms(model, domain.sketch[part], part.start, cfg, domain.name):
                sketch.update(terms.activations, terms.errors, terms.group)
                for collector in collectors.values():
                    collector.update(terms.activations, terms.errors, terms.labels)
        whole = merged(found.sketches[number])
        sums = whole.state()[0]["sums"]
        assert torch.allclose(sums, sketch.state()[0]["sums"], rtol=1e-4, atol=1e-9)
        assert [block.num_tokens for block in found.blocks[number]] == [2 * (domain.sketch.shape[1] - 1)] * (
            len(domain.sketch) // 2
        )
        assert torch.allclose(merged(found.blocks[number]).state()[0]["sums"], sums)
        for kind, collector in collectors.items():
            kept, expected = read_summary(kind, found.summaries[kind][number]), collector.summary()
            for part in fields(expected):
                mine, theirs = getattr(kept, part.name), getattr(expected, part.name)
                assert torch.equal(torch.as_tensor(mine), torch.as_tensor(theirs)), part.name


def test_counts_are_those_of_the_predicted_tokens(model, domains, store):
    found = pass_over(replace(CFG, baselines=["token_frequency"]), model, domains, 0, store)
    assert found.summaries.keys() == {"label_counts"}
    for domain, path in zip(domains, found.summaries["label_counts"], strict=True):
        labels, counts = domain.sketch[:, 1:].unique(return_counts=True)
        kept = read_summary("label_counts", path)
        assert torch.equal(kept.labels, labels) and torch.equal(kept.counts, counts)


def test_only_what_is_missing_is_made(model, domains, store):
    pass_over(replace(CFG, baselines=["token_frequency"]), model, domains, 0, store)
    before = made(store)
    pass_over(CFG, model, domains, 0, store)
    after = made(store)
    assert before.items() <= after.items() and len(after) == len(before) + 2 * len(domains)
    pass_over(CFG, model, domains, 1, store)  # another projection: the summaries stay
    assert len(made(store)) == len(after) + 2 * len(domains)
    pass_over(replace(CFG, label_mode="model"), model, domains, 0, store)
    assert len(made(store)) == len(after) + 2 * len(domains) + 5 * len(domains)


def test_matrices_are_the_measures_of_all_pairs(model, domains, store):
    found = pass_over(CFG, model, domains, 0, store)
    matrices = baseline_matrices(CFG.baselines, found.summaries, found.summary_keys, store.cache)
    assert list(matrices) == list(CFG.baselines)
    streams = []
    for domain in domains:
        blocks = list(stream_terms(model, domain.sketch, 0, CFG, domain.name))
        streams.append((
            torch.cat([block.activations for block in blocks]),
            torch.cat([block.errors for block in blocks]),
        ))
    # All 61 errors are kept, so nothing is left out.
    for name, exact in (
        ("mean_gradient", exact_mean_gradient_cosines(streams)),
        (
            "mean_gradient_centred",
            exact_mean_gradient_cosines(streams, center=torch.cat([a for a, _ in streams]).double().mean(0)),
        ),
        ("diagonal_fisher", exact_diagonal_fisher_cosines(streams)),
    ):
        assert torch.allclose(matrices[name].value, exact, atol=1e-5), name
        assert float(matrices[name].error_bound.max()) == 0
    first, second = (read_summary("label_means", path) for path in found.summaries["label_means"][:2])
    pairs = paired_label_means(first, second)
    assert float(matrices["cka_label_means"].value[0, 1]) == pytest.approx(
        linear_cka(pairs.first, pairs.second)
    )
    assert float(matrices["debiased_cka_label_means"].value[0, 1]) == pytest.approx(
        linear_cka(pairs.first, pairs.second, debiased=True)
    )
    frequency = matrices["token_frequency"].value
    assert torch.allclose(frequency.diagonal(), torch.ones(3).double())
    kept = {path: path.stat().st_mtime_ns for path in (store.cache.root / "baselines").glob("*.npz")}
    again = baseline_matrices(CFG.baselines, found.summaries, found.summary_keys, store.cache)
    assert all(
        torch.equal(again[name].value, matrices[name].value)
        for name in ("token_frequency", "diagonal_fisher")
    )
    assert kept == {path: path.stat().st_mtime_ns for path in (store.cache.root / "baselines").glob("*.npz")}
    assert len(kept) == len(NAMES)
