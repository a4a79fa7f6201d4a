import math

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
import torch

from fishersketch.baselines import UndefinedSimilarityError, logme

SHAPES = {"more_samples": (40, 6), "fewer_samples": (12, 30), "as_many": (15, 15)}


def make(samples, dim, seed=0):
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(samples, dim, generator=generator, dtype=torch.float64)
    noise = torch.randn(samples, generator=generator, dtype=torch.float64)
    return features, ((features[:, 0] + noise > 0).long() + (features[:, 1] > 1).long())


def posterior_evidence(alpha, beta, features, y):
    """log p(y) from the dense posterior over the d weights (MacKay 1992; equation 2 of the LogME paper)."""
    n, d = features.shape
    precision = alpha * np.eye(d) + beta * features.T @ features
    mean = beta * np.linalg.solve(precision, features.T @ y)
    return (
        n / 2 * math.log(beta)
        + d / 2 * math.log(alpha)
        - n / 2 * math.log(2 * math.pi)
        - beta / 2 * np.sum((features @ mean - y) ** 2)
        - alpha / 2 * mean @ mean
        - np.linalg.slogdet(precision)[1] / 2
    )


def marginal_evidence(alpha, beta, features, y):
    """log p(y) from the dense covariance of the n labels."""
    covariance = features @ features.T / alpha + np.eye(len(y)) / beta
    return scipy.stats.multivariate_normal(np.zeros(len(y)), covariance).logpdf(y)


def brute_force(evidence, features, labels):
    """The largest evidence over log alpha and log beta, from many starts, averaged as LogME is."""
    values = []
    for label in np.unique(labels):
        y = (labels == label).astype(float)
        runs = [
            scipy.optimize.minimize(
                lambda logs, y=y: -evidence(math.exp(logs[0]), math.exp(logs[1]), features, y),
                start,
                method="L-BFGS-B",
                bounds=[(-9, 17)] * 2,
                options={"ftol": 1e-14, "gtol": 1e-9},
            ).fun
            for start in ([0, 0], [3, 1], [-1, 3], [4, -1], [1, 5])
        ]
        values.append(-min(runs) / len(y))
    return np.mean(values)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("evidence", [posterior_evidence, marginal_evidence])
def test_is_the_largest_evidence_found_by_brute_force(shape, evidence):
    features, labels = make(*shape)
    expected = brute_force(evidence, features.numpy(), labels.numpy())
    assert logme(features, labels) == pytest.approx(expected, abs=2e-6)


def test_the_two_dense_forms_agree_for_fewer_samples_than_dimensions():
    features, labels = (part.numpy() for part in make(12, 30))
    y = (labels == 1).astype(float)
    for alpha, beta in ((0.3, 2.0), (5.0, 40.0)):
        assert posterior_evidence(alpha, beta, features, y) == pytest.approx(
            marginal_evidence(alpha, beta, features, y), abs=1e-9
        )


def test_dimensions_without_content_change_nothing():
    features, labels = make(12, 30)
    left, singular, _ = torch.linalg.svd(features, full_matrices=False)
    value = logme(features, labels)
    assert logme(left * singular, labels) == pytest.approx(value, abs=1e-9)  # 12 coordinates of the 30
    assert logme(torch.cat([features, torch.zeros(12, 500)], 1), labels) == pytest.approx(value, abs=1e-9)
    assert logme(1e3 * features, labels) == pytest.approx(value, abs=1e-9)


def test_features_that_say_nothing_leave_the_evidence_of_noise_alone():
    features = torch.tensor([[1.0], [-1.0], [1.0], [-1.0]])  # orthogonal to both classes
    labels = torch.tensor([0, 0, 1, 1])
    # y ~ N(0, I / beta) at beta = n / |y|^2 = 2
    assert logme(features, labels) == pytest.approx(
        -(1 + math.log(2 * math.pi) + math.log(0.5)) / 2, abs=1e-9
    )


def test_a_closed_form():
    # One feature equal to class 0 plus a part outside of it: x^2 and the residual by hand, then one maximum.
    features = torch.tensor([[1.0], [1.0], [0.5], [0.0]])
    labels = torch.tensor([0, 0, 1, 1])
    expected = []
    for y in (np.array([1, 1, 0, 0.0]), np.array([0, 0, 1, 1.0])):
        inside = (y @ features[:, 0].numpy()) ** 2 / 2.25
        outside = y @ y - inside
        # Free variances inside and outside: s = inside, t = outside / 3, if the inside is the larger.
        s, t = max(inside, 0.5), outside / 3
        if inside <= outside / 3:
            s = t = 0.5
        expected.append(-(math.log(s) + 3 * math.log(t) + 4 + 4 * math.log(2 * math.pi)) / 8)
    assert logme(features, labels) == pytest.approx(np.mean(expected), abs=1e-8)


def test_better_features_have_more_evidence():
    labels = torch.arange(200) % 4
    noise = torch.randn(200, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    clean = torch.nn.functional.one_hot(labels, 8)
    values = [logme(clean + spread * noise, labels) for spread in (0.1, 0.3, 1.0, 10.0)]
    assert values == sorted(values, reverse=True)


def test_refuses_features_that_leave_the_evidence_without_bound():
    labels = torch.arange(12) % 3
    exact = torch.nn.functional.one_hot(labels, 3).double()
    with pytest.raises(
        UndefinedSimilarityError, match="features of rank 3 give class 0 of 12 samples exactly"
    ):
        logme(exact, labels)
    with pytest.raises(UndefinedSimilarityError, match="features are all zero"):
        logme(torch.zeros(12, 3), labels)
