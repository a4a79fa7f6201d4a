import itertools

import numpy as np
import pytest
import torch
from baseline_tasks import make_pair

from fishersketch.baselines import UndefinedSimilarityError, linear_cka


def test_published_values():
    # The demonstration of Kornblith et al. 2019 (google-research, representation_similarity/Demo.ipynb)
    # prints 0.55761 and, debiased, 0.51346 for these draws.
    state = np.random.RandomState(1337)
    first = state.randn(100, 10)
    second = state.randn(100, 10) + first
    first, second = torch.from_numpy(first), torch.from_numpy(second)
    assert round(linear_cka(first, second), 5) == 0.55761
    assert round(linear_cka(first, second, debiased=True), 5) == 0.51346


@pytest.mark.parametrize("samples", [6, 30])  # fewer samples than dimensions, and more
def test_biased_is_hsic_with_centring_matrices(samples):
    first, second = make_pair(0, samples=samples, dims=(12, 9))

    def hsic(x, y):
        h = torch.eye(samples, dtype=torch.float64) - 1 / samples
        return torch.trace(x @ x.T @ h @ y @ y.T @ h)

    expected = hsic(first, second) / (hsic(first, first) * hsic(second, second)).sqrt()
    assert linear_cka(first, second) == pytest.approx(float(expected), abs=1e-12)


@pytest.mark.parametrize("dims", [(12, 9), (2, 3)])  # more dimensions than samples, and fewer
def test_debiased_is_the_u_statistic_over_distinct_quadruples(dims):
    first, second = make_pair(1, samples=6, dims=dims)

    def hsic(x, y):
        k, m = (x @ x.T).numpy(), (y @ y.T).numpy()
        quadruples = itertools.permutations(range(6), 4)
        return np.mean([k[i, j] * (m[i, j] + m[q, r] - 2 * m[i, q]) for i, j, q, r in quadruples])

    expected = hsic(first, second) / np.sqrt(hsic(first, first) * hsic(second, second))
    assert linear_cka(first, second, debiased=True) == pytest.approx(expected, abs=1e-12)


def test_debiasing_takes_out_the_similarity_of_unrelated_representations():
    generator = torch.Generator().manual_seed(0)
    pairs = [torch.randn(2, 20, 100, generator=generator, dtype=torch.float64) for _ in range(200)]
    biased = np.array([linear_cka(*pair) for pair in pairs])
    debiased = np.array([linear_cka(*pair, debiased=True) for pair in pairs])
    assert biased.mean() > 0.8
    assert abs(debiased.mean()) < 4 * debiased.std() / np.sqrt(200)


def test_debiased_needs_four_samples_and_positive_self_alignments():
    first, second = make_pair(2, samples=3)
    with pytest.raises(
        UndefinedSimilarityError, match="debiased CKA needs at least 4 samples, and 3 were given"
    ):
        linear_cka(first, second, debiased=True)
    corners = torch.eye(5, dtype=torch.float64)  # all inner products alike: nothing to align with
    with pytest.raises(UndefinedSimilarityError, match="the unbiased self-alignments are"):
        linear_cka(corners, corners, debiased=True)
