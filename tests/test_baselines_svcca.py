import numpy as np
import pytest
import scipy.linalg
import torch
from baseline_tasks import make_pair

from fishersketch.baselines import UndefinedSimilarityError, svcca
from fishersketch.baselines.svcca import canonical_correlations
from fishersketch.errors import FisherSketchError


def by_covariances(first, second, variance):
    """Canonical correlations from principal components and a generalised eigenproblem of covariances."""

    def principal(x):
        values, vectors = np.linalg.eigh(np.cov(x.T))
        values, vectors = values[::-1], vectors[:, ::-1]
        kept = next(c for c in range(1, len(values) + 1) if values[:c].sum() / values.sum() >= variance)
        return (x - x.mean(0)) @ vectors[:, :kept]

    x, y = principal(first.numpy()), principal(second.numpy())
    cx = x.shape[1]
    joint = np.cov(np.hstack([x, y]).T).reshape(cx + y.shape[1], -1)
    within = scipy.linalg.block_diag(joint[:cx, :cx], joint[cx:, cx:])
    return scipy.linalg.eigh(joint - within, within, eigvals_only=True)[::-1][: min(cx, y.shape[1])]


@pytest.mark.parametrize("variance", [0.8, 0.99, 0.9999])
def test_agrees_with_the_eigenproblem_of_the_covariances(variance):
    first, second = make_pair(0, samples=50)
    first = first * torch.logspace(0, -2, 7, dtype=torch.float64)
    expected = by_covariances(first, second, variance)
    found = canonical_correlations(first, second, variance=variance)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-10)
    assert svcca(first, second, variance=variance) == pytest.approx(expected.mean(), abs=1e-10)


def test_published_value():
    # The demonstration of Kornblith et al. 2019 (google-research, representation_similarity/Demo.ipynb)
    # prints a mean squared correlation of 0.54312 for these draws, uncentred; mirrored samples are centred
    # and have the same correlations.
    state = np.random.RandomState(1337)
    first = state.randn(100, 10)
    second = state.randn(100, 10) + first
    mirrored = (torch.from_numpy(np.vstack([m, -m])) for m in (first, second))
    assert round(float(canonical_correlations(*mirrored, variance=1.0).square().mean()), 5) == 0.54312


def test_a_first_component_that_carries_all_variance_is_kept():
    first, second = make_pair(1, samples=50)
    first[:, 0] *= 1e4  # more than 99 % of the variance
    found = canonical_correlations(first[:, :5], second)
    assert len(found) == 1
    single = canonical_correlations(first[:, :5], second, max_components=1)
    leading = np.linalg.svd((second - second.mean(0)).numpy())[0][:, 0]
    assert float(single) == pytest.approx(abs(np.corrcoef(first[:, 0], leading)[0, 1]), abs=1e-4)


def test_a_share_met_exactly_keeps_no_further_component():
    first = torch.tensor([[1.0, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]]).repeat(2, 1)
    second = torch.randn(12, 3, generator=torch.Generator().manual_seed(0))
    assert len(canonical_correlations(first, second, variance=2 / 3 - 1e-9)) == 2
    assert len(canonical_correlations(first, second, variance=1.0)) == 3


def test_directions_at_rounding_level_do_not_count():
    for seed in range(20):  # in some of them the shares of rank 20 add up to just below 1
        first, second = make_pair(seed, samples=80, dims=(20, 30))
        doubled = torch.cat([first, first.cumsum(1)], 1)  # rank 20 of 40
        expected = canonical_correlations(first, second, variance=1.0).tolist()
        for limit in (None, 40):
            found = canonical_correlations(doubled, second, variance=1.0, max_components=limit)
            assert found.tolist() == pytest.approx(expected, abs=1e-10)


def test_refuses_more_components_than_samples_can_tell_apart():
    generator = torch.Generator().manual_seed(0)
    first, second = torch.randn(2, 20, 100, generator=generator)
    with pytest.raises(
        UndefinedSimilarityError, match="19 and 19 components of 20 samples correlate by necessity"
    ):
        svcca(first, second)
    assert svcca(first, second, max_components=3) < 0.8


@pytest.mark.parametrize("wrong", [{"variance": 0.0}, {"variance": 1.1}, {"max_components": 0}])
def test_refuses_options_out_of_range(wrong):
    (name, value), (first, second) = wrong.copy().popitem(), make_pair(3)
    with pytest.raises(FisherSketchError, match=f"{name}={value}: "):
        svcca(first, second, **wrong)
