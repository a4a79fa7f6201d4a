"""How close the features of every projection come to the squared inner product."""

import pytest
import torch

from fishersketch.projections import make_projection

KINDS = ("rademacher", "hadamard", "block_hadamard")
every_kind = pytest.mark.parametrize("kind", KINDS)


def pairs(size):
    """Pairs (x, y): dense, all of one sign, sparse, and softmax errors of one label; three (2, size)."""
    generator = torch.Generator().manual_seed(size)
    noise = torch.randn(6, size, generator=generator, dtype=torch.float64)
    softmax = torch.softmax(3 * noise[4:], 1)
    softmax[:, size // 2] -= 1
    sparse = torch.zeros(2, size, dtype=torch.float64)
    sparse[:, 0], sparse[0, size // 2 - 1], sparse[1, size - 2] = 1.0, -1.0, -0.9
    twins = torch.zeros(2, size, dtype=torch.float64)
    twins[:, 0], twins[:, size // 2 - 1] = 1.0, -1.0
    cases = [torch.stack([noise[0], noise[0] + noise[1]]), 1 + 0.3 * noise[2:4], softmax, sparse, twins]
    return torch.stack([case / case.norm(dim=1, keepdim=True) for case in cases if case.norm() > 0])


def estimates(kind, size, m, seeds):
    """The mean over features of phi(x) phi(y), (seeds, pairs), and its truth, (pairs,)."""
    x = pairs(size)
    stacked = x.flatten(0, 1)
    rows = []
    for seed in range(seeds):
        phi = make_projection(kind, size, m, f"seed {seed}").features(stacked).view(len(x), 2, m)
        rows.append(phi.prod(1).mean(1))
    return torch.stack(rows), x.prod(1).sum(1).square()


@every_kind
@pytest.mark.parametrize(
    ("size", "m", "seeds"),
    [(1, 3, 50), (2, 6, 400), (3, 6, 400), (7, 12, 800), (62, 128, 1500), (130, 64, 300)],
)
def test_squared_inner_product_is_unbiased(kind, size, m, seeds):
    values, truth = estimates(kind, size, m, seeds)
    stderr = values.std(0) / seeds**0.5
    assert ((values.mean(0) - truth).abs() <= 4 * stderr + 1e-12).all()


@every_kind
@pytest.mark.parametrize("size", [62, 576])
def test_error_falls_as_root_m_and_is_no_larger_than_of_independent_signs(kind, size):
    x = pairs(size)
    fourth = x.square().prod(1).sum(1)
    truth = x.prod(1).sum(1).square()
    # Variance of one feature of independent signs, by E over w of (w.x)^2 (w.y)^2, for |x| = |y| = 1.
    independent = ((1 + 2 * truth - 2 * fourth).square() - truth.square()).clamp_min(0).sqrt()
    rms = {}
    for m, seeds in ((64, 120), (1024, 60)):
        errors = estimates(kind, size, m, seeds)[0] - truth
        rms[m] = errors.square().mean(0).sqrt()
        assert (rms[m] <= 1.35 * independent / m**0.5).all()
        assert (errors.abs().max(0).values <= 6 * independent / m**0.5).all()
    assert rms[1024].norm() < 0.33 * rms[64].norm()  # 1 / 4 for 16 times the features
    if kind != "block_hadamard":  # whose error is below it for some pairs, and rises to it with m
        assert rms[1024].norm() > 0.18 * rms[64].norm()


def test_vectors_on_the_grid_of_a_block_cost_accuracy_and_no_bias():
    size, q, m = 1000, 32, 256
    for partner in (q * 9, 9):  # in one column of the fold, and in one row
        x = torch.zeros(1, size, dtype=torch.float64)
        x[:, 0], x[:, partner] = 0.5**0.5, -(0.5**0.5)
        rms = {}
        for kind in KINDS:
            phi = [make_projection(kind, size, m, f"grid {seed}").features(x) for seed in range(600)]
            errors = torch.stack(phi).square().mean((1, 2)) - 1
            assert errors.mean().abs() < 4 * errors.std() / len(phi) ** 0.5
            rms[kind] = float(errors.square().mean().sqrt())
        assert rms["rademacher"] < 1.2 * (3 / m) ** 0.5
        assert rms["hadamard"] < 1.2 * (3 / m) ** 0.5
        # R = 8 rows: the docstring's price, and no more than that.
        assert (3 / m) ** 0.5 < rms["block_hadamard"] < 1.2 * (3 / 8) ** 0.5
