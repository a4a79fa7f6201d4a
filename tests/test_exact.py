"""Exact alignment: its routes against each other, and against loops over the definition."""

import math

import pytest
import torch
from fisher_tasks import grouped_task

from fishersketch import FisherSketchError, exact_align
from fishersketch.kernel_sums import _BLOCK_ROWS, Samples, sequence_kernel_sums, token_kernel_sums
from fishersketch.materialized import fisher_matrix, materialized_kernel_sums

MEASURES = ("joint", "activation", "error", "coupling")
every_choice = pytest.mark.parametrize("self_terms", ["split", "plain"])
every_unit = pytest.mark.parametrize("unit", ["token", "sequence"])


def tasks_of_different_sizes(count=4, **others):
    return [grouped_task(seed, samples=24 + 8 * seed, **others) for seed in range(count)]


def samples_of(task, unit):
    """The gradients G (samples, K, d) of a task, and the half of each."""
    a, e, group = task
    gradients = e[:, :, None] * a[:, None, :]
    if unit == "token":
        return gradients, group % 2
    numbers = group.unique()
    return torch.stack([gradients[group == number].sum(0) for number in numbers]), numbers % 2


def moments_of(task, unit):
    """F, M and Gamma of the whole task and of its halves, by their definitions."""
    gradients, half = samples_of(task, unit)
    a, e, group = task

    def moments(kept):
        if unit == "token":
            rows_a, rows_e = a[kept], e[kept]
            marginals = rows_a.T @ rows_a / len(rows_a), rows_e.T @ rows_e / len(rows_e)
        else:
            g = gradients[kept]
            marginals = (g.mT @ g).mean(0), (g @ g.mT).mean(0)
        flat = gradients[kept].flatten(1)
        return flat.T @ flat / len(flat), *marginals

    everything = torch.ones_like(half, dtype=torch.bool)
    return moments(everything), moments(half == 0), moments(half == 1)


def alignment_by_definition(tasks, self_terms, unit):
    moments = [moments_of(task, unit) for task in tasks]
    squares, gaps = [], []
    for whole, even, odd in moments:
        first, second = (even, odd) if self_terms == "split" else (whole, whole)
        squares.append([float((x * y).sum()) for x, y in zip(first, second, strict=True)])
        separable = [torch.kron(part[2], part[1]) for part in (first, second)]
        norm = float((separable[0] * separable[1]).sum())
        cross = float((first[0] * separable[1]).sum() + (second[0] * separable[0]).sum()) / 2
        gaps.append((squares[-1][0] - 2 * cross + norm) / norm)
    cosine = torch.ones(3, len(tasks), len(tasks), dtype=torch.float64)
    for i in range(len(tasks)):
        for j in range(len(tasks)):
            if i != j:
                for kind in range(3):
                    inner = float((moments[i][0][kind] * moments[j][0][kind]).sum())
                    cosine[kind, i, j] = inner / math.sqrt(squares[i][kind] * squares[j][kind])
    return cosine, torch.tensor(gaps, dtype=torch.float64)


@every_choice
@every_unit
def test_the_gram_route_follows_the_definition(self_terms, unit):
    tasks = tasks_of_different_sizes()
    table = exact_align(tasks, self_terms, unit)
    cosine, gaps = alignment_by_definition(tasks, self_terms, unit)
    for kind, name in enumerate(MEASURES[:3]):
        torch.testing.assert_close(getattr(table, name), cosine[kind], rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(table.coupling, cosine[0] / (cosine[1] * cosine[2]), rtol=1e-10, atol=1e-12)
    if unit == "token":
        torch.testing.assert_close(table.squared_gap, gaps, rtol=1e-9, atol=1e-10)
    else:
        assert table.squared_gap.isnan().all() and table.separability_gap.isnan().all()
    assert table.self_terms == self_terms and not table.stderr_sketch.any()


@every_choice
@every_unit
def test_the_joint_alignment_is_the_product_of_its_parts(self_terms, unit):
    table = exact_align(tasks_of_different_sizes(), self_terms, unit)
    product = table.activation * table.error * table.coupling
    torch.testing.assert_close(product, table.joint, rtol=1e-10, atol=0)
    for name in MEASURES:
        matrix = getattr(table, name)
        assert matrix.dtype == torch.float64 and torch.equal(matrix, matrix.T)
        assert torch.equal(matrix.diagonal(), torch.ones(4, dtype=torch.float64))


@every_choice
def test_the_routes_agree(self_terms):
    tasks = tasks_of_different_sizes()
    gram, materialized = (exact_align(tasks, self_terms, route=route) for route in ("gram", "materialized"))
    for name in (*MEASURES, "squared_gap"):
        torch.testing.assert_close(getattr(gram, name), getattr(materialized, name), rtol=1e-9, atol=1e-10)


def test_token_kernel_sums_by_loops():
    first, second = (Samples(*grouped_task(seed, samples=n)) for seed, n in ((0, 12), (1, 20)))
    for one, two in ((first, second), (first, first)):
        sums, check = token_kernel_sums(one, two), materialized_kernel_sums(one, two)
        expected = torch.zeros(3, 2, 2, dtype=torch.float64)
        cross = torch.zeros(2, 2, 2, dtype=torch.float64)
        for a, e, g in zip(one.activations, one.errors, one.group, strict=True):
            rows = torch.zeros(2, 2, dtype=torch.float64)
            for a2, e2, g2 in zip(two.activations, two.errors, two.group, strict=True):
                kernels = torch.stack([(a @ a2) ** 2 * (e @ e2) ** 2, (a @ a2) ** 2, (e @ e2) ** 2])
                expected[:, g % 2, g2 % 2] += kernels
                rows[:, g2 % 2] += kernels[1:]
            cross[g % 2] += rows[0][:, None] * rows[1][None, :]
        for kind, name in enumerate(MEASURES[:3]):
            torch.testing.assert_close(getattr(sums, name), expected[kind], rtol=1e-10, atol=1e-10)
            torch.testing.assert_close(getattr(check, name), expected[kind], rtol=1e-10, atol=1e-10)
        if one is two:
            torch.testing.assert_close(sums.cross, cross, rtol=1e-10, atol=1e-10)
            torch.testing.assert_close(check.cross, cross, rtol=1e-10, atol=1e-10)


def test_sequences_of_any_length_and_number():
    a, e, _ = grouped_task(0, samples=30)
    group = torch.tensor([7] * 1 + [2] * 11 + [9] * 3 + [4] * 15)
    sums = sequence_kernel_sums(Samples(a, e, group), Samples(a, e, group))
    g = torch.stack([e[group == number].T @ a[group == number] for number in (7, 2, 9, 4)])
    kernels = torch.einsum("ikd,jkd->ij", g, g) ** 2
    assert float(sums.joint.sum()) == pytest.approx(float(kernels.sum()), rel=1e-10)
    assert float(sums.joint[0, 1]) == pytest.approx(
        float(kernels[[1, 1, 3, 3], [0, 2, 0, 2]].sum()), rel=1e-10
    )
    assert sums.counts_first.tolist() == [2.0, 2.0]


def test_blocks_of_rows_change_nothing(monkeypatch):
    tasks = tasks_of_different_sizes()
    whole = exact_align(tasks)
    assert _BLOCK_ROWS > 48
    monkeypatch.setattr("fishersketch.kernel_sums._BLOCK_ROWS", 7)
    parts = exact_align(tasks)
    for name in (*MEASURES, "squared_gap"):
        torch.testing.assert_close(getattr(parts, name), getattr(whole, name), rtol=1e-12, atol=1e-12)


@every_choice
@every_unit
def test_float32_and_half_precision(self_terms, unit):
    tasks = tasks_of_different_sizes()
    truth = exact_align(tasks, self_terms, unit)
    single = exact_align([(a.float(), e.float(), g) for a, e, g in tasks], self_terms, unit)
    mixed = exact_align([(a, e.float(), g) for a, e, g in tasks], self_terms, unit)
    rounded = [(a.bfloat16(), e.bfloat16(), g) for a, e, g in tasks]
    half = exact_align(rounded, self_terms, unit)
    truth_half = exact_align([(a.double(), e.double(), g) for a, e, g in rounded], self_terms, unit)
    for name in MEASURES:
        torch.testing.assert_close(getattr(single, name), getattr(truth, name), rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(getattr(mixed, name), getattr(truth, name), rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(getattr(half, name), getattr(truth_half, name), rtol=1e-5, atol=1e-6)


@every_unit
def test_scale_outliers_and_magnitudes_of_float32(unit):
    tasks = tasks_of_different_sizes(2)
    tasks[0][0][3] *= 1e5
    truth = exact_align(tasks, "plain", unit)
    for scale in (1e-12, 1e-6, 1e6, 1e12):
        scaled = [((a * scale).float(), (e / scale**0.5).float(), g) for a, e, g in tasks]
        table = exact_align(scaled, "plain", unit)
        torch.testing.assert_close(table.joint, truth.joint, rtol=1e-4, atol=1e-6)


@every_choice
@every_unit
def test_invariances(self_terms, unit):
    tasks = tasks_of_different_sizes()
    truth = exact_align(tasks, self_terms, unit)
    generator = torch.Generator().manual_seed(0)
    words, rotation = torch.randperm(10, generator=generator), torch.randn(6, 6, generator=generator).double()
    rotation = torch.linalg.qr(rotation).Q
    changed = {
        "scale": [(a * (2.0 + i), e * -(3.0**i), g) for i, (a, e, g) in enumerate(tasks)],
        "vocabulary": [(a, e[:, words], g) for a, e, g in tasks],
        "rotation": [(a @ rotation, e, g) for a, e, g in tasks],
        "sequence order": [
            tuple(part.view(-1, 4, *part.shape[1:]).flip(0).flatten(0, 1) for part in t) for t in tasks
        ],
        "group numbers": [(a, e, g * 3 + 10) for a, e, g in tasks],
    }
    for table in (exact_align(given, self_terms, unit) for given in changed.values()):
        for name in (*MEASURES, "squared_gap"):
            torch.testing.assert_close(
                getattr(table, name), getattr(truth, name), rtol=1e-9, atol=1e-10, equal_nan=True
            )


def test_a_task_and_its_double_are_one():
    a, e, g = grouped_task(0)
    double = (a.repeat(2, 1), e.repeat(2, 1), torch.cat([g, g + 12]))
    for self_terms in ("plain", "split"):
        other = grouped_task(1)
        once, twice = exact_align([(a, e, g), other], self_terms), exact_align([double, other], self_terms)
        assert once.joint[0, 1] == pytest.approx(float(twice.joint[0, 1]), rel=1e-12)
    assert exact_align([(a, e, g), double], "plain").joint[0, 1] == pytest.approx(1.0, rel=1e-12)


def test_gradients_autocast_and_views_do_not_matter():
    tasks = tasks_of_different_sizes(2, dtype=torch.float32)
    truth = exact_align(tasks)
    with torch.autocast("cpu", torch.bfloat16):
        a, e, g = tasks[0]
        table = exact_align([(a.clone().requires_grad_(), e.T.contiguous().T, g.to(torch.int32)), tasks[1]])
    torch.testing.assert_close(table.joint, truth.joint, rtol=1e-5, atol=1e-6)
    assert not table.joint.requires_grad


def test_progress_counts_pairs():
    seen = []
    exact_align(tasks_of_different_sizes(3), progress=lambda done, count: seen.append((done, count)))
    assert seen == [(k, 6) for k in range(1, 7)]


def test_fisher_matrix_is_the_mean_outer_product():
    a, e, _ = grouped_task(0, samples=5, dim=2, classes=3)
    expected = torch.zeros(6, 6, dtype=torch.float64)
    for row_a, row_e in zip(a, e, strict=True):
        g = torch.outer(row_e, row_a).flatten()
        expected += torch.outer(g, g) / 5
    torch.testing.assert_close(fisher_matrix(a, e), expected)


def refusals():
    a, e, g = grouped_task(0)
    nan = e.clone()
    nan[3, 4] = math.nan
    good = (a, e, g)
    apart = g.clone()
    apart[-1] = 0
    return {
        "no tasks given": ([], {}),
        r"task 1: expected \(activations, errors, group\), with None": ([good, (a, e)], {}),
        r"task 0: expected \(activations, errors, group\)": ([a], {}),
        r"task 1: errors: expected a torch.Tensor, not numpy.ndarray": ([good, (a, e.numpy(), g)], {}),
        r"task 0: 47 activations but 48 errors": ([(a[1:], e, g)], {}),
        r"task 0: group has shape \(47,\): expected \(48,\)": ([(a, e, g[1:])], {}),
        r"task 0: group has type torch.float64": ([(a, e, g.double())], {}),
        r"task 0: activations have shape \(6,\)": ([(a[0], e[:1], g[:1])], {}),
        r"task 0: holds no samples": ([(a[:0], e[:0], g[:0])], {}),
        r"task 1: errors hold NaN or infinite values": ([good, (a, nan, g)], {}),
        r"task 1: activations hold NaN": ([good, (a / 0.0, e, g)], {}),
        r"tasks have different \(d, K\): \[\(5, 10\), \(6, 10\)\]": ([good, (a[:, :5], e, g)], {}),
        r"task 1: split self terms need groups of both parities": ([good, (a, e, None)], {}),
        r"task 0: split self terms need groups of both parities": ([(a, e, g * 2)], {}),
        "self_terms='half': must be one of split, plain": ([good], {"self_terms": "half"}),
        "sample_unit='word': must be one of token, sequence": ([good], {"sample_unit": "word"}),
        "route='sum': must be one of gram, materialized": ([good], {"route": "sum"}),
        "route='materialized' is for sample_unit='token'": (
            [good],
            {"route": "materialized", "sample_unit": "sequence"},
        ),
        "task 0: group is missing: sample_unit='sequence'": (
            [(a, e, None)],
            {"sample_unit": "sequence", "self_terms": "plain"},
        ),
        "task 0: group: the rows of one sequence must stand together": (
            [(a, e, apart)],
            {"sample_unit": "sequence"},
        ),
        r"d K = 9000: the materialised route takes at most 8192; use 'gram'": (
            [(torch.ones(4, 90), torch.ones(4, 100), torch.arange(4))],
            {"route": "materialized"},
        ),
    }


@pytest.mark.parametrize("match", refusals())
def test_refusals(match):
    tasks, options = refusals()[match]
    with pytest.raises(FisherSketchError, match=f"^{match}"):
        exact_align(tasks, **options)
