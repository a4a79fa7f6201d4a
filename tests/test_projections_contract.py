"""What every pair of random projections must do, whatever its structure."""

import hashlib
import os
import subprocess
import sys

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from fishersketch import FisherSketchError, SketchSpec
from fishersketch.block_hadamard import BlockHadamard
from fishersketch.projections import make_projection
from fishersketch.rademacher import Rademacher
from fishersketch.srht import SubsampledHadamard

KINDS = {"rademacher": Rademacher, "hadamard": SubsampledHadamard, "block_hadamard": BlockHadamard}
SIZES = (1, 2, 3, 7, 62, 576, 1000, 4100, 49152)
FEATURES = (1, 5, 64, 1000, 4096)

every_kind = pytest.mark.parametrize("kind", KINDS)
every_size = pytest.mark.parametrize("size", SIZES)


def rows_of(projection, columns):
    """Entries of the rows w_k and w'_k at some columns, (m, columns) each."""
    basis = torch.zeros(len(columns), projection.size, dtype=torch.float64)
    basis[torch.arange(len(columns)), columns] = 1.0
    left, right = projection.project(basis)
    return left.T, right.T


def some_columns(size):
    return torch.tensor(sorted({0, size - 1, size // 2, *(c for c in (1, 2, 5, 40, 300, 30000) if c < size)}))


def vectors(size, count=4, seed=0, dtype=torch.float64):
    return torch.randn(count, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(
        dtype
    )


def affordable(kind, size):
    return [m for m in FEATURES if kind != "rademacher" or m * size < 5_000_000]


@every_kind
@every_size
def test_rows_are_signs_and_shapes_fit(kind, size):
    for m in affordable(kind, size):
        projection = make_projection(kind, size, m, "signs")
        assert type(projection) is KINDS[kind]
        for rows in rows_of(projection, some_columns(size)):
            assert rows.shape == (m, len(some_columns(size)))
            assert torch.equal(rows.abs(), torch.ones_like(rows))
        for dtype in (torch.float32, torch.float64):
            x = vectors(size, count=3, dtype=dtype)
            left, right = projection.project(x)
            assert left.shape == right.shape == (3, m)
            assert left.dtype == right.dtype == projection.features(x).dtype == dtype
            assert torch.equal(projection.features(x), left * right)


@every_kind
@pytest.mark.parametrize("size", [size for size in SIZES if size > 60])  # below, rows repeat by chance
def test_rows_are_not_shared_between_left_and_right_or_between_features(kind, size):
    m = min(64, max(affordable(kind, size)))
    columns = torch.randperm(size, generator=torch.Generator().manual_seed(0))[:512]
    left, right = rows_of(make_projection(kind, size, m, "distinct"), columns)
    rows = torch.cat([left, right])
    # SRHT draws its rows with replacement, as unbiasedness needs: a few may repeat.
    assert len(rows.unique(dim=0)) >= (2 * m if kind != "hadamard" else 2 * m * 0.5)


@every_kind
@every_size
def test_linear(kind, size):
    projection = make_projection(kind, size, 64, "linear")
    x = vectors(size)
    combined = projection.project(2 * x[:1] - 3 * x[1:2])
    for mixed, parts in zip(combined, projection.project(x), strict=True):
        torch.testing.assert_close(mixed, 2 * parts[:1] - 3 * parts[1:2], rtol=0, atol=1e-10 * size)


@every_kind
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-6)])
def test_batch_size_changes_nothing(kind, dtype, tolerance):
    for size, m in ((7, 1000), (62, 1000), (1000, 64), (49152, 64)):
        projection = make_projection(kind, size, m, "batch")
        x = vectors(size, count=9, dtype=dtype)
        whole = torch.stack(projection.project(x))
        for batch in (1, 4):
            parts = torch.cat([torch.stack(projection.project(block)) for block in x.split(batch)], 1)
            assert (parts - whole).norm() <= tolerance * whole.norm()


@every_kind
def test_layout_in_memory_changes_nothing(kind):
    projection = make_projection(kind, 62, 100, "layout")
    x = vectors(62)
    expected = projection.features(x)
    wide = vectors(130)
    wide[:, 3 : 3 + 124 : 2] = x
    for same in (x.T.contiguous().T, wide[:, 3 : 3 + 124 : 2]):
        assert not same.is_contiguous()
        torch.testing.assert_close(projection.features(same), expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(
        projection.features(x[:1].expand(5, -1))[4], expected[0], rtol=1e-12, atol=1e-12
    )


def sylvester_number(row):
    """The number r with row[u] = (-1)^popcount(r & u) for every u, or None."""
    if row[0] != 1:
        return None
    bits = range((len(row) - 1).bit_length())
    number = sum(1 << bit for bit in bits if row[1 << bit] < 0)
    parity = torch.tensor([(number & u).bit_count() & 1 for u in range(len(row))])
    return number if torch.equal(row, 1.0 - 2.0 * parity) else None


@pytest.mark.parametrize(("size", "m"), [(62, 32), (576, 400)])
def test_hadamard_rows_are_those_of_h_times_one_sign_diagonal(size, m):
    left, right = rows_of(make_projection("hadamard", size, m, "rows"), torch.arange(size))
    numbers = [sylvester_number(row * left[0]) for row in torch.cat([left, right])]
    assert None not in numbers
    assert len(set(numbers)) > m  # drawn anew for w and w'
    more = rows_of(make_projection("hadamard", size, 3 * m, "rows"), torch.arange(size))[0]
    assert sylvester_number(more[0] * more[-1]) is None  # a further sign diagonal


@pytest.mark.parametrize(("size", "q", "m"), [(62, 8, 64), (576, 32, 200), (1000, 32, 1000)])
def test_block_rows_pair_across_both_factors(size, q, m):
    left, right = rows_of(make_projection("block_hadamard", size, m, "rows"), torch.arange(size))
    lefts = [sylvester_number(row * left[0]) for row in left]
    rights = [sylvester_number(row * right[0]) for row in right]
    assert None not in lefts + rights
    for by_factor in (lambda number: number // q, lambda number: number % q):
        met = {(by_factor(a), by_factor(b)) for a, b in zip(lefts, rights, strict=True)}
        assert len(met) == m  # no two features share their pair of rows in one factor
    both = (left[0] * right[0])[: size // q * q].view(-1, q)  # a Hadamard row times g (x) h
    assert torch.linalg.matrix_rank(both) == 1
    assert sylvester_number(left[0] * right[0]) is None


@every_kind
@every_size
def test_multiply_adds_are_those_computed(kind, size):
    for m in affordable(kind, size)[1:]:
        projection = make_projection(kind, size, m, "cost")
        with FlopCounterMode(display=False) as counter:
            projection.project(vectors(size, count=1))
        multiplied = counter.get_total_flops() / 2
        signs = projection.multiply_adds() - multiplied
        dense = 2 * m * size
        if kind == "rademacher":
            assert (multiplied, signs) == (dense, 0)
        else:
            assert 0 < signs <= 2 * max(m, size) * 2
        if (kind, size, m) == ("block_hadamard", 49152, 4096):
            assert projection.multiply_adds() < 0.01 * dense


def digest_of_all_kinds():
    """A digest of rows of every kind; read from another process too."""
    digest = hashlib.sha256()
    for kind in KINDS:
        for size, m in ((3, 40), (62, 100), (1000, 64)):
            rows = torch.cat(rows_of(make_projection(kind, size, m, "process"), some_columns(size)))
            digest.update(rows.to(torch.int8).numpy().tobytes())
    return digest.hexdigest()


def test_the_same_rows_in_another_process():
    code = (
        "import test_projections_contract as t, torch; torch.manual_seed(5); print(t.digest_of_all_kinds())"
    )
    folder = os.path.dirname(__file__)
    environment = {**os.environ, "PYTHONHASHSEED": "77", "PYTHONPATH": f"{folder}:{os.path.dirname(folder)}"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == digest_of_all_kinds()


@every_kind
def test_seed_side_size_and_m_change_the_rows(kind):
    def rows(size=62, other=62, m=128, seed=0, side=0):
        sizes = (size, other) if side == 0 else (other, size)
        spec = SketchSpec(*sizes, m, projection=kind, seed=seed)
        return torch.cat(rows_of(spec.projections()[side], torch.arange(60)))[:128]

    assert torch.equal(rows(), rows())
    assert torch.equal(rows(), rows(other=7))  # the other side's size does not matter
    for changed in (rows(seed=1), rows(side=1), rows(size=63), rows(m=129)):
        agreement = (rows() * changed).mean(1).abs()
        assert agreement.mean() < 0.25


def test_unknown_kind_is_refused():
    with pytest.raises(
        FisherSketchError, match="projection='dense': must be one of block_hadamard, hadamard"
    ):
        make_projection("dense", 3, 4, "label")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="compares with a CUDA device, and there is none")
@every_kind
def test_cuda_has_the_same_rows(kind):
    for size, m in ((7, 1000), (62, 1000), (1000, 64)):
        here, there = (make_projection(kind, size, m, "device") for _ in range(2))
        basis = torch.eye(size, dtype=torch.float64)
        assert torch.equal(torch.stack(here.project(basis)), torch.stack(there.project(basis.cuda())).cpu())
        x = vectors(size)
        expected = here.features(x)
        assert (there.features(x.cuda()).cpu() - expected).norm() <= 1e-12 * expected.norm()
