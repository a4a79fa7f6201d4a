"""Bootstrap, paired and Mantel tests against enumerations and scipy's own."""

import itertools

import numpy as np
import pytest
import scipy.stats

from experiments import scores
from experiments.draws import indices, permutations, signs, uniforms, words
from tests.score_matrices import GAIN, random_matrix

NAN = float("nan")


def test_bootstrap_interval_is_scipys_up_to_its_draws() -> None:
    values = np.round(uniforms("values", 0, (40,)))
    low, high = scores.interval(values, seed=0)
    theirs = scipy.stats.bootstrap(
        (values,), np.mean, method="percentile", n_resamples=10_000, rng=np.random.default_rng(0)
    ).confidence_interval
    assert abs(low - theirs.low) <= 0.026 and abs(high - theirs.high) <= 0.026  # one of 40 targets
    assert scores.interval(values, seed=0) == (low, high)
    assert scores.interval(np.append(values, NAN), seed=0) == (low, high)
    assert scores.interval(np.full(5, 0.25), seed=1) == (0.25, 0.25)
    continuous = uniforms("values", 1, (40,))
    assert scores.interval(continuous, seed=0) != scores.interval(continuous, seed=1)
    assert np.isnan(scores.interval(np.array([NAN]), seed=0)).all()


def test_exact_paired_test_is_scipys() -> None:
    first, second = uniforms("first", 0, (9,)), uniforms("second", 0, (9,)) - 0.2
    ours = scores.paired_test(first, second, seed=0)
    theirs = scipy.stats.permutation_test(
        (first, second),
        lambda a, b, axis: np.mean(a - b, axis=axis),
        permutation_type="samples",
        vectorized=True,
    )
    assert ours.exact and ours.p == pytest.approx(theirs.pvalue, abs=1e-12)
    assert ours.difference == pytest.approx(theirs.statistic)
    assert ours.p_floor == 2 / 2**9
    equal = np.arange(30.0)  # targets on which both agree add nothing
    padded = scores.paired_test(np.append(first, equal), np.append(second, equal), seed=0)
    assert padded.exact and padded.p == pytest.approx(ours.p)


def test_paired_test_by_hand() -> None:
    assert scores.paired_test(np.ones(4), np.zeros(4), seed=0).p == 2 / 16
    assert scores.paired_test(np.ones(4), np.ones(4), seed=0).p == 1
    mixed = scores.paired_test(np.array([1.0, 1, 1, 0]), np.array([0.0, 0, 0, 1]), seed=0)
    assert mixed.p == 10 / 16  # |sum| >= 2 for 2 * (1 + 4) of 16 assignments


def test_sampled_paired_test_agrees_with_the_exact_tail() -> None:
    count, ahead = 40, 28  # of 40 targets on which just one is right, 28 for the first
    first = (np.arange(count) < ahead).astype(float)
    found = scores.paired_test(first, 1 - first, seed=0)
    expected = scipy.stats.binomtest(ahead, count).pvalue
    assert not found.exact and found.p_floor == 1e-4
    assert found.p == pytest.approx(expected, abs=4 * np.sqrt(expected / 9_999))
    assert found.p == scores.paired_test(1 - first, first, seed=0).p


def test_exact_mantel_is_an_enumeration() -> None:
    a, b = random_matrix(5, "a"), random_matrix(5, "b")
    off = ~np.eye(5, dtype=bool)
    observed = scipy.stats.spearmanr(a[off], b[off])
    every = [
        abs(scipy.stats.spearmanr(a[np.ix_(order, order)][off], b[off]).statistic)
        for order in itertools.permutations(range(5))
    ]
    found = scores.matrix_correlation(a, b, seed=0)
    assert found.spearman == pytest.approx(observed.statistic, abs=1e-12)
    assert found.p_spearman == pytest.approx(observed.pvalue, abs=1e-12)
    assert found.p_mantel == pytest.approx(np.mean(np.array(every) >= abs(observed.statistic) - 1e-12))
    assert found.exact and found.permutations == 120 and found.p_floor == 1 / 120


def test_sampled_mantel_agrees_with_an_enumeration() -> None:
    a = random_matrix(9, "a")
    b = 0.2 * a + random_matrix(9, "b")
    off = ~np.eye(9, dtype=bool)
    ranks = [np.zeros((9, 9)), np.zeros((9, 9))]
    for rank, matrix in zip(ranks, (a, b), strict=True):
        rank[off] = scipy.stats.rankdata(matrix[off])
    orders = np.array(list(itertools.permutations(range(9))), dtype=np.int8)
    products = np.zeros(len(orders))
    for i, j in itertools.permutations(range(9), 2):
        products += ranks[0][orders[:, i], orders[:, j]] * ranks[1][i, j]
    centred = np.abs(products - 72 * 36.5**2)
    expected = np.mean(centred >= abs(np.sum(ranks[0] * ranks[1]) - 72 * 36.5**2) - 1e-6)
    found = scores.matrix_correlation(a, b, seed=0)
    assert not found.exact and found.permutations == 9_999 and found.p_floor == 1e-4
    assert 0.01 < expected < 0.5
    assert found.p_mantel == pytest.approx(expected, abs=4 * np.sqrt(expected / 9_999))
    itself = scores.matrix_correlation(a, a, seed=0)
    assert itself.spearman == pytest.approx(1) and itself.p_mantel == itself.p_floor


def test_mantel_of_constant_and_undefined_matrices() -> None:
    constant = scores.matrix_correlation(np.ones((4, 4)), GAIN, seed=0)
    assert (constant.spearman, constant.p_mantel, constant.p_spearman) == (0, 1, 1)
    undefined = GAIN.copy()
    undefined[3, 2] = NAN  # the lowest value off the diagonal
    assert scores.matrix_correlation(undefined, GAIN, seed=0).spearman == pytest.approx(1)


def test_mantel_is_calibrated_where_the_plain_p_is_not() -> None:
    rows = [
        uniforms("row effects", k, (2, 7, 1)) for k in range(200)
    ]  # a row effect ties a matrix's pairs together
    found = [
        scores.matrix_correlation(
            r[0] + 0.1 * random_matrix(7, f"x{k}"), r[1] + 0.1 * random_matrix(7, f"y{k}"), seed=0
        )
        for k, r in enumerate(rows)
    ]
    assert 0.01 <= np.mean([f.p_mantel <= 0.05 for f in found]) <= 0.1
    assert np.mean([f.p_spearman <= 0.05 for f in found]) > 0.25


def test_draws_are_fixed_by_their_recipe() -> None:
    assert [int(w) for w in words("check", 7, 2)] == [13431814892772659370, 5746183091957551607]
    drawn = indices("i", 0, (200, 100), 10)
    assert drawn.min() == 0 and drawn.max() == 9
    assert scipy.stats.chisquare(np.bincount(drawn.ravel(), minlength=10)).pvalue > 1e-3
    assert (np.sort(permutations("p", 0, 50, 9), axis=1) == np.arange(9)).all()
    assert set(np.unique(signs("s", 0, 30, 30))) == {-1.0, 1.0}
    assert 0 <= uniforms("u", 0, (10_000,)).min() and uniforms("u", 0, (10_000,)).mean() == pytest.approx(
        0.5, abs=0.02
    )
