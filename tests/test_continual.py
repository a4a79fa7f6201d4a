"""Continual learning: orders, forgetting, and the job on a tiny model."""

import itertools

import numpy as np
import pytest
import torch
from built import Built, domain_set
from tiny_models import loaded, markov_domain

from analysis.jobs import continual as shown
from analysis.load import RunFolder
from experiments.config import Config, EstimatorConfig
from experiments.continual import ContinualConfig, run
from experiments.errors import UserError
from experiments.finetune import TransferConfig
from experiments.finetuning.opening import opened
from experiments.finetuning.source import fine_tune, scored
from experiments.finetuning.train import Schedule
from experiments.sequences.forgetting import forgetting, forgetting_metrics
from experiments.sequences.training import SequenceLosses, sequence_losses
from experiments.store import Store
from fishersketch import FisherSketchError, order_tasks, predicted_interference

LORA = {"mode": "lora", "learning_rate": 2e-2, "epochs": 2, "batch_windows": 5}


def similarity(count: int, seed: int = 0) -> torch.Tensor:
    values = torch.rand(count, count, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return ((values + values.T) / 2).fill_diagonal_(1)


@pytest.mark.parametrize("recency", [0.3, 0.5, 0.9])
def test_the_order_is_the_best_of_all(recency):
    matrix = similarity(5)
    values = {o: predicted_interference(matrix, o, recency) for o in itertools.permutations(range(5))}
    found = tuple(order_tasks(matrix, recency))
    assert values[found] == pytest.approx(min(values.values()))
    opposite = tuple(order_tasks(2 - matrix, recency))
    assert values[opposite] == pytest.approx(max(values.values()))
    every = {round(predicted_interference(matrix, order, 1.0), 9) for order in values}
    assert len(every) == 1


def test_what_cannot_be_ordered_is_refused():
    with pytest.raises(FisherSketchError, match="not finite"):
        order_tasks(similarity(3).fill_(torch.nan))
    with pytest.raises(FisherSketchError, match="17 tasks: at most 16"):
        order_tasks(similarity(17))
    with pytest.raises(FisherSketchError, match="recency=0"):
        order_tasks(similarity(3), 0)
    with pytest.raises(FisherSketchError, match=r"order=\[0, 0, 1\]: must name each of 3 tasks once"):
        predicted_interference(similarity(3), [0, 0, 1])


def test_sequences_are_those_of_training_in_that_order(store, domains, monkeypatch):
    cfg, model = TransferConfig(**LORA), loaded("llama")
    orders = [(2, 0, 1), (0, 1, 2), (0, 2, 1)]
    found = sequence_losses(cfg, model, domains, orders, store)
    schedule = Schedule(cfg.learning_rate, cfg.weight_decay, cfg.batch_windows, cfg.epochs)
    with opened(cfg, model) as tunable:
        for place, order in enumerate(orders):
            tunable.reset("sequence", 0)
            for task in order:
                fine_tune(tunable, model, domains[task], schedule, 0)
                after = scored(tunable, model, domains[task].held_out).mean(1)
                assert np.allclose(found.after[place, task], after, atol=1e-5)
            final = [scored(tunable, model, task.held_out).mean(1) for task in domains]
            assert np.allclose(found.final[place], final, atol=1e-5)
    assert not np.allclose(found.final[0], found.final[1])
    monkeypatch.setattr("experiments.sequences.training.fine_tune", None)
    assert np.array_equal(sequence_losses(cfg, model, domains, orders, store).final, found.final)


def test_forgetting_leaves_the_last_task_out():
    change = np.array([[1.0, 2.0, 30.0], [10.0, 2.0, 4.0]])
    assert forgetting(change, [(0, 1, 2), (2, 1, 0)]).tolist() == [1.5, 3.0]


def test_metrics_hold_chosen_orders_against_random_ones():
    orders = list(itertools.permutations(range(3)))
    random = np.random.default_rng(0)
    after = random.uniform(2, 3, (6, 3, 4))
    rise = np.arange(6.0)[:, None, None] + random.normal(0, 0.01, (6, 3, 4))
    losses = SequenceLosses(after[0], after, after + rise)
    predicted = {"joint": np.arange(6.0)[1:], "error": -np.arange(6.0)[1:]}
    chosen = {"joint": orders[0], "joint_most": orders[5]}
    found = forgetting_metrics(losses, orders, chosen, orders[1:], predicted, 200)
    assert found["forgetting"]["joint"] == pytest.approx(0, abs=0.02)
    assert found["forgetting"]["random"] == pytest.approx(3, abs=0.02)
    assert found["forgetting_against_random"]["joint"]["mean"] == pytest.approx(-3, abs=0.03)
    low, high = found["forgetting_against_random"]["joint"]["interval"]
    assert low < -3 < high < 0
    assert found["share_better"] == {"joint": 0, "joint_most": pytest.approx(4 / 5)}
    assert found["spearman"]["joint"] == pytest.approx(1) and found["spearman"]["error"] == pytest.approx(-1)
    assert found["random_orders"]["count"] == 5


def config(names: str = "abcd", **changed) -> Config:
    domains = [markov_domain(name, seed) for seed, name in enumerate(names)]
    settings = {
        "settings": ContinualConfig(random_orders=5, resamples=100),
        "transfer": TransferConfig(**LORA, train_windows=5),
    } | changed
    estimator = EstimatorConfig(
        num_features=512, exact_windows=0, extra_streams=["mean_gradient"], baselines=[]
    )
    return Config(
        job="continual",
        device="cpu",
        model=Built("tiny", loaded("llama")),
        domains=Built("chains", domain_set(domains)),
        estimator=estimator,
        **settings,
    )


def test_the_job_runs_and_is_shown(tmp_path, monkeypatch):
    monkeypatch.setenv("FISHERSKETCH_CACHE", str(tmp_path / "cache"))
    with Store(tmp_path / "run", {"job": "continual", "seed": 0}, "test") as store:
        run(config(), store)
    made = RunFolder.open(tmp_path / "run")
    arrays = made.arrays("continual")
    assert len({tuple(order) for order in arrays["orders"]}) == len(arrays["orders"])
    assert arrays["drawn"].shape == (5,) and len(set(arrays["drawn"])) == 5
    order = made.metric("order.joint")
    assert sorted(order) == list("abcd")
    place = arrays["orders"].tolist().index([list("abcd").index(name) for name in order])
    change = (arrays["final"] - arrays["after"]).mean(-1)[place]
    kept = [list("abcd").index(name) for name in order[:-1]]
    assert made.metric("forgetting.joint") == pytest.approx(change[kept].mean())
    assert made.metric("learned") > 0
    assert {"joint", "joint_most", "activation", "error", "mean_gradient", "random"} == set(
        made.metric("forgetting")
    )
    presentation = shown.present(made)
    assert [table.name for table in presentation.tables] == ["orders", "correlation", "forgetting"]
    for figure in presentation.figures:
        assert figure.draw().axes and len(figure.alternative) > 30


@pytest.mark.parametrize(
    ("names", "changed", "says"),
    [
        ("abcd", {"transfer": TransferConfig(mode="head")}, "transfer: job=continual trains one model"),
        ("ab", {}, "domains=chains: has 2 domains; a sequence needs at least 3"),
        ("abc", {"settings": ContinualConfig(random_orders=7)}, r"random_orders=7: 3 domains have 6 orders"),
        (
            "abcd",
            {"transfer": TransferConfig(**LORA, train_windows=99)},
            r"transfer\.train_windows=99: a has",
        ),
    ],
)
def test_what_cannot_be_a_sequence_is_refused(tmp_path, names, changed, says):
    with (
        Store(tmp_path / "run", {"job": "continual"}, "test") as store,
        pytest.raises(UserError, match=says),
    ):
        run(config(names, **changed), store)
