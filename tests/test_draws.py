"""The draws that features depend on, held to literals that no torch, numpy or platform may change."""

import hashlib

import pytest
import torch

from fishersketch import FisherSketch, SketchSpec
from fishersketch.draws import Draws


def test_golden_draws():
    draws = Draws("golden")
    assert draws.signs(12).tolist() == [-1, -1, -1, -1, -1, -1, 1, 1, -1, -1, -1, -1]
    assert draws.uniform(6, 1024).tolist() == [722, 671, 1014, 1004, 458, 569]
    assert draws.distinct(5, 9).tolist() == [6, 3, 8, 2, 0]
    assert draws.signs(70)[-6:].tolist() == [1, -1, -1, -1, 1, -1]


def _whole_numbers(rows, columns, least, most):
    numbers = torch.arange(rows * columns).view(rows, columns) * 7919 % (most - least) + least
    return numbers.to(torch.float64)


@pytest.mark.parametrize(
    ("projection", "first", "digest"),
    [
        ("rademacher", [-865, -525, 1783, -2305, -15335, 2043], "3cfc148dbc0485f5"),
        ("hadamard", [-7245, -1737, -1011, -2405, -5613, 3753], "b57870fab0b0b544"),
        ("block_hadamard", [-1253, -3167, 1035, 7389, 615, 961], "0eba32f1a993d53c"),
    ],
)
def test_golden_sums(projection, first, digest):
    # Whole numbers times signs: the sums are whole and the same on every platform, to the last bit.
    sketch = FisherSketch(SketchSpec(5, 13, 40, projection, seed=3))
    sketch.update(_whole_numbers(9, 5, -4, 5), _whole_numbers(9, 13, -3, 4), torch.arange(9) // 2)
    sums = sketch.state()[0]["sums"]
    changed = "this torch, numpy or platform draws other features: older signatures no longer compare"
    assert sums[0, 0, :6].tolist() == first, changed
    assert torch.equal(sums, sums.round())
    assert hashlib.sha256(sums.numpy().astype("<i8").tobytes()).hexdigest()[:16] == digest, changed


def test_draws_look_uniform_and_independent():
    draws = Draws("statistics")
    signs = draws.signs(100_000).double()
    assert signs.mean().abs() < 4 / 100_000**0.5
    assert (signs[1:] * signs[:-1]).mean().abs() < 4 / 100_000**0.5
    assert (signs * Draws("statistics, again").signs(100_000)).mean().abs() < 4 / 100_000**0.5
    counts = torch.bincount(draws.uniform(64_000, 64), minlength=64)
    assert ((counts - 1000).abs() < 4.5 * 1000**0.5).all()
    assert draws.uniform(3, 1).tolist() == [0, 0, 0]


def test_distinct_is_a_uniform_choice_in_random_order():
    draws = Draws("distinct")
    chosen = torch.stack([draws.distinct(3, 5) for _ in range(4000)])
    assert all(len(set(row)) == 3 for row in chosen.tolist())
    for place in range(3):
        counts = torch.bincount(chosen[:, place], minlength=5)
        assert ((counts - 800).abs() < 4.5 * (4000 * 0.2 * 0.8) ** 0.5).all()


def test_one_label_gives_one_stream_and_longer_reads_begin_alike():
    assert torch.equal(Draws("label").signs(128)[:64], Draws("label").signs(64))
    assert not torch.equal(Draws("label").signs(64), Draws("label ").signs(64))
