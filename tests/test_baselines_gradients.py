"""Mean gradient and diagonal Fisher: against autograd, materialised matrices, and with errors left out."""

import pytest
import torch
from baseline_tasks import CLASSES, DIM, collect, make_task

from fishersketch.baselines import (
    LargestErrors,
    UndefinedSimilarityError,
    diagonal_fisher_cosine,
    diagonal_fisher_cosines,
    exact_diagonal_fisher_cosines,
    exact_mean_gradient_cosines,
    mean_gradient_cosine,
    mean_gradient_cosines,
    mean_gradient_cosines_from_sketch,
    outer_products,
    pooled_mean,
)
from fishersketch.baselines.largest_errors import _largest
from fishersketch.errors import FisherSketchError

TASKS = [make_task(seed, samples=30 + 5 * seed) for seed in range(4)]


def cosines(vectors):
    units = torch.stack([v.flatten() / v.norm() for v in vectors])
    return units @ units.T


def close(found, expected, tolerance=1e-12):
    torch.testing.assert_close(found, expected, atol=tolerance, rtol=0)


def streams(tasks):
    return [(activations, errors) for activations, errors, _ in tasks]


def summaries(tasks, num_kept=CLASSES):
    return [collect(LargestErrors(num_kept), task, batch=16) for task in tasks]


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of a few classes and samples, so that the tests cross their borders."""
    monkeypatch.setattr(outer_products, "BLOCK_NUMBERS", 100)


def autograd_gradients(tasks):
    """Gradient of the mean loss, and mean of the squared gradients, of a real head, by autograd."""
    means, squares = [], []
    for number, (activations, _, labels) in enumerate(tasks):
        head = torch.nn.Linear(DIM, CLASSES, dtype=torch.float64)
        with torch.no_grad():
            head.weight.copy_(
                torch.randn(CLASSES, DIM, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
            )
        losses = torch.nn.functional.cross_entropy(head(activations), labels, reduction="none")
        per_sample = torch.stack([torch.autograd.grad(x, head.weight, retain_graph=True)[0] for x in losses])
        means.append(per_sample.mean(0)), squares.append(per_sample.square().mean(0))
        probabilities = torch.softmax(head(activations), 1).detach()
        errors = probabilities - torch.nn.functional.one_hot(labels, CLASSES)
        tasks[number] = (activations, errors, labels)
    return tasks, means, squares


def test_both_agree_with_autograd():
    tasks, means, squares = autograd_gradients(list(TASKS))
    close(mean_gradient_cosines(summaries(tasks)).value, cosines(means))
    close(diagonal_fisher_cosines(summaries(tasks)).value, cosines(squares))
    close(exact_mean_gradient_cosines(streams(tasks)), cosines(means))
    close(exact_diagonal_fisher_cosines(streams(tasks)), cosines(squares))


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("center", [None, torch.linspace(-1, 2, DIM)])
def test_mean_gradient_agrees_with_materialised_matrices(center):
    shift = 0 if center is None else center.double()
    expected = cosines([(a - shift).T @ e / len(a) for a, e in streams(TASKS)])
    found = mean_gradient_cosines(summaries(TASKS), center=center)
    close(found.value, expected)
    assert float(found.error_bound.abs().max()) == 0
    close(exact_mean_gradient_cosines(streams(TASKS), center=center), expected)
    pair = summaries(TASKS[1:3])
    assert mean_gradient_cosine(*pair, center=center) == pytest.approx(float(expected[1, 2]), abs=1e-12)


@pytest.mark.usefixtures("small_blocks")
def test_diagonal_fisher_agrees_with_materialised_matrices():
    expected = cosines([(a**2).T @ e**2 / len(a) for a, e in streams(TASKS)])
    close(diagonal_fisher_cosines(summaries(TASKS)).value, expected)
    close(exact_diagonal_fisher_cosines(streams(TASKS)), expected)
    assert diagonal_fisher_cosine(*summaries(TASKS[1:3])) == pytest.approx(float(expected[1, 2]), abs=1e-12)


def test_the_mean_gradient_keeps_the_sign_and_the_diagonal_does_not():
    activations, errors, labels = TASKS[0]
    pair = summaries([TASKS[0], (activations, -errors, labels)])
    assert mean_gradient_cosine(*pair) == pytest.approx(-1, abs=1e-12)
    assert diagonal_fisher_cosine(*pair) == pytest.approx(1, abs=1e-12)


def test_identical_activations_and_disjoint_labels_are_orthogonal():
    activations, errors, labels = make_task(0, classes=22)
    low, high = errors.clone(), errors.clone()
    low[:, 11:], high[:, :11] = 0, 0
    pair = summaries([(activations, low, labels), (activations, high, labels)], num_kept=22)
    assert mean_gradient_cosine(*pair) == 0
    assert diagonal_fisher_cosine(*pair) == 0


@pytest.mark.parametrize("num_kept", [2, 8, 32])
@pytest.mark.parametrize(
    "truncated, exact",
    [
        (mean_gradient_cosines, exact_mean_gradient_cosines),
        (diagonal_fisher_cosines, exact_diagonal_fisher_cosines),
    ],
)
def test_errors_left_out_move_the_cosines_within_their_bound(truncated, exact, num_kept):
    # 2,500 classes go through the search by groups; every logit is tripled to concentrate the errors.
    tasks = []
    for seed in range(3):
        activations, _, _ = make_task(seed, samples=60)
        head = torch.randn(2500, DIM, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        probabilities = torch.softmax(3 * activations @ head.T, 1)
        labels = torch.multinomial(probabilities, 1, generator=torch.Generator().manual_seed(seed)).flatten()
        tasks.append((activations, probabilities - torch.nn.functional.one_hot(labels, 2500), labels))
    found, expected = truncated(summaries(tasks, num_kept)), exact(streams(tasks))
    moved = (found.value - expected).abs()
    assert bool((moved <= found.error_bound + 1e-12).all())
    assert 1e-9 < float(moved.max()) < (0.1 if num_kept == 2 else 0.02)
    fewer = truncated(summaries(tasks, num_kept // 2))
    assert bool((found.error_bound <= fewer.error_bound).all())


def test_the_bound_is_2_where_more_was_left_out_than_kept():
    activations = torch.ones(2, 1, dtype=torch.float64)
    errors = torch.tensor([[3.0, 2.9], [-3.0, 2.9]], dtype=torch.float64)  # what is kept cancels to nothing
    other = torch.tensor([[1.0, 0.0], [1.0, 0.0]], dtype=torch.float64)
    labels = torch.zeros(2, dtype=torch.int64)
    errors[1, 0] = -2.999
    found = mean_gradient_cosines(
        summaries([(activations, errors, labels), (activations, other, labels)], num_kept=1)
    )
    assert float(found.error_bound[0, 1]) == 2


@pytest.mark.parametrize("classes", [64, 777, 8192, 49_177])  # below, in and between groups
def test_the_search_by_groups_finds_the_largest_errors(classes):
    errors = torch.randn(5, classes, generator=torch.Generator().manual_seed(0))
    found, values = _largest(errors, 10)
    expected = errors.abs().topk(10).indices
    assert torch.equal(found.sort().values, expected.sort().values)
    assert torch.equal(values, errors.gather(1, found))


def test_terms_are_ordered_by_class_and_bounded():
    errors = torch.tensor([[0.5, -0.9, 0.1, 0.3], [-0.2, 0.4, 0.05, -0.25]])
    terms = collect(LargestErrors(2), (torch.ones(2, 3), errors, torch.tensor([1, 3])), batch=1)
    assert terms.classes.tolist() == [0, 1, 1, 3]
    assert terms.samples.tolist() == [0, 0, 1, 1]
    torch.testing.assert_close(terms.errors, torch.tensor([0.5, -0.9, 0.4, -0.25]))
    norms = torch.tensor([(0.01 + 0.09) ** 0.5, (0.04 + 0.0025) ** 0.5], dtype=torch.float64)
    torch.testing.assert_close(terms.left_out_norm, norms, atol=1e-7, rtol=0)
    torch.testing.assert_close(terms.left_out_max, torch.tensor([0.5, 0.25], dtype=torch.float64))


def test_the_signed_first_moments_estimate_the_mean_gradient():
    m = 40_000
    generator = torch.Generator().manual_seed(0)
    w, x = (torch.randint(0, 2, (size, m), generator=generator).double() * 2 - 1 for size in (DIM, CLASSES))
    moments = torch.stack([((a @ w) * (e @ x)).mean(0) for a, e in streams(TASKS)])
    expected = exact_mean_gradient_cosines(streams(TASKS))
    assert float((mean_gradient_cosines_from_sketch(moments) - expected).abs().max()) < 4 / m**0.5
    # A sketch that forgot the sign would fail: a task with reversed errors is the opposite.
    signed = mean_gradient_cosines_from_sketch(torch.stack([moments[0], -moments[0]]))
    assert float(signed[0, 1]) == pytest.approx(-1, abs=1e-12)


def test_pooled_mean_weighs_every_sample_alike():
    expected = torch.cat([activations for activations, _, _ in TASKS]).mean(0)
    close(pooled_mean(summaries(TASKS)), expected)


def test_centring_takes_out_a_shared_direction():
    shifted = [(a + 100, e, y) for a, e, y in TASKS]
    terms = summaries(shifted)
    close(
        mean_gradient_cosines(terms, center=pooled_mean(terms)).value,
        mean_gradient_cosines(summaries(TASKS), center=pooled_mean(summaries(TASKS))).value,
        1e-9,
    )
    assert (
        float(
            (mean_gradient_cosines(terms).value - mean_gradient_cosines(summaries(TASKS)).value).abs().max()
        )
        > 0.1
    )


def test_refuses_tasks_that_cannot_be_compared():
    terms, other = summaries(TASKS[:2]), summaries([make_task(0, classes=9)])
    with pytest.raises(
        FisherSketchError, match="task 2 has 6 dimensions and 9 classes, and task 0 has 6 and 11"
    ):
        mean_gradient_cosines([*terms, *other])
    with pytest.raises(FisherSketchError, match="task 1 has 6 dimensions and 9 classes"):
        exact_mean_gradient_cosines(streams([TASKS[0], make_task(0, classes=9)]))
    with pytest.raises(FisherSketchError, match=r"center has shape \(5,\): activations have 6 dimensions"):
        mean_gradient_cosines(terms, center=torch.zeros(5))
    for compare in (diagonal_fisher_cosines, exact_diagonal_fisher_cosines):
        with pytest.raises(FisherSketchError, match="no task was given"):
            compare([])


def test_refuses_tasks_without_gradient_or_samples():
    activations, errors, labels = TASKS[0]
    still = (activations, torch.zeros_like(errors), labels)
    with pytest.raises(UndefinedSimilarityError, match="task 1 has no gradient"):
        diagonal_fisher_cosines(summaries([TASKS[0], still]))
    with pytest.raises(UndefinedSimilarityError, match="task 1 has no gradient"):
        exact_mean_gradient_cosines(streams([TASKS[0], still]))
    with pytest.raises(UndefinedSimilarityError, match="no sample was given for task 1"):
        exact_mean_gradient_cosines([streams(TASKS)[0], (activations[:0], errors[:0])])
    with pytest.raises(UndefinedSimilarityError, match="first_moments of task 0 are all zero"):
        mean_gradient_cosines_from_sketch(torch.zeros(2, 8))


def test_the_exact_form_refuses_malformed_streams():
    activations, errors, _ = TASKS[0]
    with pytest.raises(FisherSketchError, match="errors of task 0 has shape"):
        exact_diagonal_fisher_cosines([(activations, errors[1:])])
    broken = errors.clone()
    broken[2, 2] = torch.nan
    with pytest.raises(FisherSketchError, match="errors of task 1 holds NaN"):
        exact_diagonal_fisher_cosines([(activations, errors), (activations, broken)])
    with pytest.raises(FisherSketchError, match="num_kept=0: keep at least 1"):
        LargestErrors(0)
