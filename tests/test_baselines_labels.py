"""Token frequency, label means, and the matrix of all pairs."""

import numpy as np
import pytest
import torch
from baseline_tasks import DIM, collect, make_task

from fishersketch.baselines import (
    LabelCounter,
    LabelMeansCollector,
    UndefinedSimilarityError,
    linear_cka,
    on_label_means,
    paired_label_means,
    similarity_matrix,
    token_frequency_cosine,
)
from fishersketch.errors import FisherSketchError


def with_labels(labels, classes=50_000):
    """A task with the given labels; activations and errors do not matter."""
    labels = torch.as_tensor(labels)
    generator = torch.Generator().manual_seed(len(labels))
    activations = torch.randn(len(labels), DIM, generator=generator, dtype=torch.float64)
    return activations, torch.zeros(1, 1).expand(len(labels), classes), labels


def test_token_frequency_by_hand():
    first = collect(LabelCounter(), with_labels([7, 7, 7, 40_000]))
    second = collect(LabelCounter(), with_labels([7, 7, 12, 9, 40_000, 40_000, 9, 9]))
    # sqrt(3 * 2) + sqrt(1 * 2) over sqrt(4 * 8)
    assert token_frequency_cosine(first, second) == pytest.approx((6**0.5 + 2**0.5) / 32**0.5, abs=1e-15)
    assert first.labels.tolist() == [7, 40_000] and first.counts.tolist() == [3, 1]


def test_token_frequency_agrees_with_dense_counts():
    tasks = [make_task(seed, samples=100) for seed in range(2)]
    dense = [np.sqrt(np.bincount(task[2].numpy(), minlength=11)) for task in tasks]
    expected = dense[0] @ dense[1] / np.linalg.norm(dense[0]) / np.linalg.norm(dense[1])
    found = token_frequency_cosine(*(collect(LabelCounter(), task, batch=9) for task in tasks))
    assert found == pytest.approx(expected, abs=1e-12)


def test_tasks_without_a_common_label_have_frequency_cosine_0_and_no_pairs():
    low, high = with_labels([1, 2, 3]), with_labels([4, 5, 6])
    assert token_frequency_cosine(collect(LabelCounter(), low), collect(LabelCounter(), high)) == 0
    with pytest.raises(UndefinedSimilarityError, match="no label has 1 samples in both tasks"):
        paired_label_means(collect(LabelMeansCollector(), low), collect(LabelMeansCollector(), high))


def test_label_means_agree_with_a_loop_over_labels():
    generator = torch.Generator().manual_seed(0)
    task = with_labels(torch.randint(0, 300, (1000,), generator=generator))
    means = collect(LabelMeansCollector(), task, batch=17)
    assert means.labels.tolist() == sorted(set(task[2].tolist()))
    for row, label in enumerate(means.labels.tolist()):
        members = task[0][task[2] == label]
        assert int(means.counts[row]) == len(members)
        torch.testing.assert_close(means.means[row], members.mean(0), atol=1e-12, rtol=0)


def test_pairs_are_the_shared_labels_in_one_order():
    first = collect(LabelMeansCollector(), with_labels([9, 3, 3, 5, 70]))
    second = collect(LabelMeansCollector(), with_labels([70, 5, 5, 3, 3, 3, 11]))
    pairs = paired_label_means(first, second)
    assert pairs.labels.tolist() == [3, 5, 70]
    assert torch.equal(pairs.first, first.means[[0, 1, 3]])
    assert torch.equal(pairs.second, second.means[[0, 1, 3]])
    assert paired_label_means(first, second, min_count=2).labels.tolist() == [3]
    with pytest.raises(UndefinedSimilarityError, match="no label has 3 samples in both tasks"):
        paired_label_means(first, second, min_count=3)
    with pytest.raises(FisherSketchError, match="min_count=0: a label needs at least 1 sample"):
        paired_label_means(first, second, min_count=0)


def test_a_measure_on_label_means_sees_the_pairs():
    first, second = (collect(LabelMeansCollector(), make_task(seed, samples=200)) for seed in range(2))
    pairs = paired_label_means(first, second, min_count=4)
    measure = on_label_means(linear_cka, min_count=4, min_labels=len(pairs.labels))
    assert measure(first, second) == linear_cka(pairs.first, pairs.second)
    stricter = on_label_means(linear_cka, min_count=4, min_labels=12)
    with pytest.raises(
        UndefinedSimilarityError, match="labels have 4 samples in both tasks, and at least 12 are"
    ):
        stricter(first, second)


def test_matrix_is_source_by_target():
    found = similarity_matrix([1.0, 2.0, 5.0], lambda source, target: source - target, symmetric=False)
    assert found.dtype == torch.float64
    assert found.tolist() == [[0, -1, -4], [1, 0, -3], [4, 3, 0]]


def test_matrix_computes_each_pair_of_a_symmetric_measure_once():
    seen = []
    found = similarity_matrix([2.0, 3.0, 4.0], lambda a, b: seen.append((a, b)) or a * b)
    assert found.tolist() == [[4, 6, 8], [6, 9, 12], [8, 12, 16]]
    assert len(seen) == len(set(seen)) == 6


def test_matrix_names_the_pair_without_a_value_or_writes_nan():
    tasks = [with_labels([1, 2, 3, 4]), with_labels([2, 3, 4, 5]), with_labels([8, 9, 4, 7])]
    means = [collect(LabelMeansCollector(), task) for task in tasks]
    measure = on_label_means(linear_cka, min_labels=2)
    with pytest.raises(UndefinedSimilarityError, match="tasks fr and sql: 1 labels have 1 samples in both"):
        similarity_matrix(means, measure, names=["fr", "de", "sql"])
    with pytest.raises(UndefinedSimilarityError, match="tasks 0 and 2: "):
        similarity_matrix(means, measure)
    found = similarity_matrix(means, measure, undefined="nan")
    assert found.isnan().tolist() == [[False, False, True], [False, False, True], [True, True, False]]


def test_matrix_passes_on_mistakes_even_where_nan_is_allowed():
    broken = [torch.zeros(4, 2), torch.full((4, 2), torch.nan)]
    with pytest.raises(FisherSketchError, match="second holds NaN"):
        similarity_matrix([torch.eye(4, 2), broken[1]], linear_cka, undefined="nan")
    with pytest.raises(FisherSketchError, match="undefined='zero': give"):
        similarity_matrix(broken, linear_cka, undefined="zero")
    with pytest.raises(FisherSketchError, match="1 names for 2 summaries"):
        similarity_matrix(broken, linear_cka, names=["fr"])
