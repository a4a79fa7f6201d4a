"""What every baseline must do, whatever it measures; a new method file is refused until it is listed here."""

import functools
import pkgutil
from dataclasses import dataclass, field

import pytest
import torch
from baseline_tasks import CLASSES, DIM, collect, make_pair, make_task, orthogonal

import fishersketch.baselines as baselines
from fishersketch.baselines import (
    LabelCounter,
    LabelMeansCollector,
    LargestErrors,
    UndefinedSimilarityError,
    diagonal_fisher_cosine,
    leep,
    linear_cka,
    logme,
    mean_gradient_cosine,
    on_label_means,
    rsa,
    svcca,
    token_frequency_cosine,
)
from fishersketch.errors import FisherSketchError

SUPPORT = {"checks", "collector", "largest_errors", "matrix", "outer_products"}


@dataclass(frozen=True)
class Streamed:
    """A similarity of summaries: how they are collected, and what may be done to one task's stream."""

    collector: object
    similarity: object
    ignores: dict = field(default_factory=dict)  # name -> map of (activations, errors) that changes nothing


SCALE = {"scale": lambda a, e: (3.7 * a, 0.2 * e)}
ROTATE = {"rotate": lambda a, e: (a @ orthogonal(DIM), e)}
NOISE = {"noise": lambda a, e: (torch.randn_like(a), torch.randn_like(e))}
CENTER = torch.linspace(-1, 1, DIM, dtype=torch.float64)

PAIRED = {
    "cka": linear_cka,
    "cka_debiased": functools.partial(linear_cka, debiased=True),
    "rsa": rsa,
    "rsa_euclidean": functools.partial(rsa, dissimilarity="euclidean"),
    "rsa_pearson": functools.partial(rsa, comparison="pearson"),
    "rsa_euclidean_pearson": functools.partial(rsa, dissimilarity="euclidean", comparison="pearson"),
    "svcca": svcca,
    "svcca_one_component": functools.partial(svcca, max_components=1),
}
ROTATABLE = [
    name for name in PAIRED if name not in ("rsa", "rsa_pearson")
]  # correlation is across dimensions
STREAMED = {
    "token_frequency": Streamed(LabelCounter, token_frequency_cosine, SCALE | ROTATE | NOISE),
    "label_means_cka": Streamed(LabelMeansCollector, on_label_means(linear_cka), SCALE | ROTATE),
    "label_means_rsa": Streamed(LabelMeansCollector, on_label_means(rsa), SCALE),
    "label_means_svcca": Streamed(
        LabelMeansCollector, on_label_means(functools.partial(svcca, max_components=2)), SCALE | ROTATE
    ),
    "mean_gradient": Streamed(LargestErrors, mean_gradient_cosine, SCALE),
    "mean_gradient_centred": Streamed(LargestErrors, functools.partial(mean_gradient_cosine, center=CENTER)),
    "mean_gradient_largest": Streamed(functools.partial(LargestErrors, 4), mean_gradient_cosine, SCALE),
    "diagonal_fisher": Streamed(LargestErrors, diagonal_fisher_cosine, SCALE),
}
LABEL_SCORES = {"logme": logme, "leep": leep}


def label_score_inputs(seed=0, samples=40):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(samples, 4, generator=generator, dtype=torch.float64)
    return torch.softmax(2 * logits, 1), logits[:, :3].argmax(1)


paired = pytest.mark.parametrize("measure", PAIRED.values(), ids=PAIRED)
streamed = pytest.mark.parametrize("case", STREAMED.values(), ids=STREAMED)
label_scores = pytest.mark.parametrize("score", LABEL_SCORES.values(), ids=LABEL_SCORES)


def test_every_method_file_is_under_the_contract():
    functions = [*PAIRED.values(), *LABEL_SCORES.values(), *(case.similarity for case in STREAMED.values())]
    modules = {getattr(f, "func", f).__module__.rsplit(".", 1)[1] for f in functions}
    found = {module.name for module in pkgutil.iter_modules(baselines.__path__)}
    assert modules == found - SUPPORT


@paired
def test_paired_is_symmetric_and_one_on_itself(measure):
    first, second = make_pair(0)
    assert measure(first, second) == pytest.approx(measure(second, first), abs=1e-12)
    assert measure(first, first) == pytest.approx(1, abs=1e-12)
    assert abs(measure(first, second)) < 0.9999


@paired
def test_paired_ignores_scale_and_the_order_of_samples(measure):
    first, second = make_pair(1)
    order = torch.randperm(len(first), generator=torch.Generator().manual_seed(0))
    assert measure(1e-4 * first, 250 * second) == pytest.approx(measure(first, second), abs=1e-10)
    assert measure(first[order], second[order]) == pytest.approx(measure(first, second), abs=1e-10)
    assert abs(measure(first[order], second) - measure(first, second)) > 1e-3


@pytest.mark.parametrize("name", ROTATABLE)
def test_paired_ignores_orthogonal_maps_and_shifts(name):
    first, second = make_pair(2)
    moved = first @ orthogonal(first.shape[1]) - 5
    assert PAIRED[name](moved, second) == pytest.approx(PAIRED[name](first, second), abs=1e-10)


@paired
def test_paired_computes_in_float64_and_leaves_its_inputs(measure):
    first, second = make_pair(3)
    single = first.float(), second.float()
    kept = single[0].clone(), single[1].clone()
    assert measure(*single) == measure(single[0].double(), single[1].double())
    assert torch.equal(single[0], kept[0]) and torch.equal(single[1], kept[1])


@paired
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_paired_takes_representations_from_a_gpu(measure):
    first, second = make_pair(3)
    assert measure(first.cuda(), second.cuda()) == measure(first, second)


@paired
def test_paired_refuses_what_is_not_a_pair(measure):
    first, second = make_pair(4)
    broken = second.clone()
    broken[3, 1] = torch.nan
    with pytest.raises(FisherSketchError, match="second holds NaN"):
        measure(first, broken)
    broken[3, 1] = -torch.inf
    with pytest.raises(FisherSketchError, match="first holds infinite values"):
        measure(broken, first)
    with pytest.raises(FisherSketchError, match="first has 29 samples and second 30"):
        measure(first[:-1], second)
    with pytest.raises(FisherSketchError, match=r"first has shape \(30,\): give a matrix"):
        measure(first[:, 0], second)
    with pytest.raises(FisherSketchError, match="second has no columns"):
        measure(first, second[:, :0])


@paired
def test_paired_refuses_too_few_samples_and_constants(measure):
    first, second = make_pair(5)
    with pytest.raises(UndefinedSimilarityError, match="needs at least [234] samples, and 1 were given"):
        measure(first[:1], second[:1])
    with pytest.raises(UndefinedSimilarityError, match="second|equal"):
        measure(first, torch.ones_like(second))


@streamed
def test_streamed_is_symmetric_and_one_on_itself(case):
    first, second = (collect(case.collector(), make_task(seed, samples=300)) for seed in (0, 1))
    assert case.similarity(first, second) == pytest.approx(case.similarity(second, first), abs=1e-12)
    assert case.similarity(first, first) == pytest.approx(1, abs=1e-12)
    assert abs(case.similarity(first, second)) < 0.9999


@streamed
@pytest.mark.parametrize("batch", [1, 7, 64])
def test_streamed_ignores_the_batch_size(case, batch):
    tasks = [make_task(seed, samples=300) for seed in (2, 3)]
    whole = case.similarity(*(collect(case.collector(), task) for task in tasks))
    parts = case.similarity(*(collect(case.collector(), task, batch) for task in tasks))
    assert parts == pytest.approx(whole, abs=1e-12)


@streamed
def test_streamed_ignores_the_order_of_samples(case):
    task, other = (make_task(seed, samples=300) for seed in (4, 5))
    order = torch.randperm(300, generator=torch.Generator().manual_seed(0))
    other = collect(case.collector(), other)
    shuffled = collect(case.collector(), tuple(part[order] for part in task))
    straight = collect(case.collector(), task)
    assert case.similarity(shuffled, other) == pytest.approx(case.similarity(straight, other), abs=1e-12)


@pytest.mark.parametrize("name, change", [(n, c) for n, case in STREAMED.items() for c in case.ignores])
def test_streamed_ignores_what_its_definition_ignores(name, change):
    case = STREAMED[name]
    (activations, errors, labels), other = (make_task(seed, samples=300) for seed in (6, 7))
    changed = collect(case.collector(), (*case.ignores[change](activations, errors), labels))
    straight, other = (
        collect(case.collector(), (activations, errors, labels)),
        collect(case.collector(), other),
    )
    assert case.similarity(changed, other) == pytest.approx(case.similarity(straight, other), abs=1e-10)


@streamed
def test_streamed_takes_empty_chunks_and_half_precision(case):
    activations, errors, labels = make_task(8, samples=300)
    half = activations.bfloat16(), errors.bfloat16(), labels
    collector = case.collector()
    collector.update(*(part[:0] for part in half))
    mixed = collect(collector, half, batch=50)
    widened = collect(case.collector(), (half[0].double(), half[1].double(), labels))
    assert case.similarity(mixed, widened) == pytest.approx(1, abs=1e-12)


@streamed
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_streamed_takes_chunks_from_a_gpu(case):
    task, other = make_task(17, samples=300), collect(case.collector(), make_task(18, samples=300))
    moved = collect(case.collector(), tuple(part.cuda() for part in task), batch=50)
    expected = case.similarity(collect(case.collector(), task), other)
    assert case.similarity(moved, other) == pytest.approx(expected, abs=1e-12)


@streamed
def test_a_summary_does_not_change_with_later_updates(case):
    collector = case.collector()
    before, other = collect(collector, make_task(9, samples=300)), collect(case.collector(), make_task(10))
    value = case.similarity(before, other)
    collect(collector, make_task(11, samples=300))
    assert case.similarity(before, other) == value


@streamed
def test_streamed_keeps_no_view_of_the_chunk(case):
    activations, errors, labels = (part.clone() for part in make_task(12, samples=300))
    collector, other = case.collector(), collect(case.collector(), make_task(13, samples=300))
    collector.update(activations, errors, labels)
    value = case.similarity(collector.summary(), other)
    activations.zero_(), errors.zero_(), labels.zero_()
    assert case.similarity(collector.summary(), other) == value


@streamed
def test_streamed_refuses_what_does_not_belong_together(case):
    activations, errors, labels = make_task(14)
    with pytest.raises(FisherSketchError, match=r"errors has shape \(39, 11\): give \(40, classes\)"):
        case.collector().update(activations, errors[:-1], labels)
    with pytest.raises(
        FisherSketchError, match=r"labels has shape \(39,\): give one label a sample, \(40,\)"
    ):
        case.collector().update(activations, errors, labels[:-1])
    with pytest.raises(FisherSketchError, match=r"activations has shape \(240,\)"):
        case.collector().update(activations.flatten(), errors, labels)
    with pytest.raises(FisherSketchError, match="labels holds -100: drop the ignored positions first"):
        case.collector().update(activations, errors, labels.index_fill(0, torch.tensor([3]), -100))
    with pytest.raises(
        FisherSketchError, match=f"labels holds {CLASSES}, and errors has {CLASSES} classes only"
    ):
        case.collector().update(activations, errors, labels.index_fill(0, torch.tensor([3]), CLASSES))
    with pytest.raises(FisherSketchError, match="labels has type torch.float64: give whole numbers"):
        case.collector().update(activations, errors, labels.double())


@streamed
def test_streamed_refuses_a_task_without_samples(case):
    with pytest.raises(UndefinedSimilarityError, match="no sample was given"):
        case.collector().summary()


@pytest.mark.parametrize("name", [name for name in STREAMED if name != "token_frequency"])
def test_streamed_refuses_nan_by_name_and_keeps_what_it_had(name):
    case = STREAMED[name]
    task, other = make_task(15, samples=300), collect(case.collector(), make_task(16, samples=300))
    collector = case.collector()
    collect(collector, task)
    value = case.similarity(collector.summary(), other)
    broken = [part.clone() for part in task]
    broken[0][7, 2] = torch.nan
    with pytest.raises(FisherSketchError, match="activations holds NaN"):
        collector.update(*broken)
    if isinstance(collector, LargestErrors):
        broken = [part.clone() for part in task]
        broken[1][7, 2] = torch.inf
        with pytest.raises(FisherSketchError, match="errors holds infinite values"):
            collector.update(*broken)
    with pytest.raises(FisherSketchError, match="5 dimensions"):
        collector.update(task[0][:, :5], task[1], task[2])
    assert case.similarity(collector.summary(), other) == value


@label_scores
def test_label_scores_ignore_the_order_of_samples_and_the_names_of_classes(score):
    values, labels = label_score_inputs()
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    assert score(values[order], labels[order]) == pytest.approx(score(values, labels), abs=1e-9)
    assert score(values, 50 - 7 * labels) == pytest.approx(score(values, labels), abs=1e-9)
    assert score(values[:, [2, 0, 3, 1]], labels) == pytest.approx(score(values, labels), abs=1e-9)
    assert score(values, labels) > score(values[order], labels)


@label_scores
def test_label_scores_refuse_malformed_inputs(score):
    values, labels = label_score_inputs()
    broken = values.clone()
    broken[0, 0] = torch.nan
    with pytest.raises(FisherSketchError, match="(features|source_probabilities) holds NaN"):
        score(broken, labels)
    with pytest.raises(FisherSketchError, match=r"labels has shape \(39,\)"):
        score(values, labels[1:])
    with pytest.raises(FisherSketchError, match="labels holds -100"):
        score(values, labels.index_fill(0, torch.tensor([0]), -100))
    with pytest.raises(FisherSketchError, match="labels has type torch.bool"):
        score(values, labels == 1)
    with pytest.raises(UndefinedSimilarityError, match="needs at least 2 samples, and 1 were given"):
        score(values[:1], labels[:1])
    with pytest.raises(
        UndefinedSimilarityError, match="needs at least 2 classes, and labels holds class 3 alone"
    ):
        score(values, torch.full_like(labels, 3))
