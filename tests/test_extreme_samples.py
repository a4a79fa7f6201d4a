"""Samples at the ends: outliers, two to a million, few classes, equal errors, more features than rows."""

import math

import pytest
import torch
from fisher_tasks import grouped_task, sketch_of

from fishersketch import FisherSketchError, SketchSpec, align, align_stream, exact_align

PROJECTIONS = ("rademacher", "hadamard", "block_hadamard")
MEASURES = ("joint", "activation", "error")
every_projection = pytest.mark.parametrize("projection", PROJECTIONS)


def spec_of(m=512, projection="block_hadamard", **others):
    return SketchSpec(6, 10, m, projection, **others)


def with_outlier(scale, dtype=torch.float64):
    """Two tasks; a token of the first has an activation `scale` times as long as it was."""
    tasks = [grouped_task(seed, dtype=dtype) for seed in (0, 1)]
    tasks[0][0][5] *= scale
    return tasks


@pytest.mark.parametrize("scale", [1e3, 1e6, 1e9, 1e12])
def test_an_outlier_makes_the_score_that_of_its_gradient_alone(scale):
    tasks = with_outlier(scale)
    g = torch.outer(tasks[0][1][5], tasks[0][0][5]).flatten() / scale
    others = torch.stack([torch.outer(e, a).flatten() for a, e, _ in [*zip(*tasks[1], strict=True)]])
    fisher = others.T @ others / len(others)
    limit = float(g @ fisher @ g / (g @ g) / fisher.norm())
    exact = exact_align(tasks, "plain")
    assert float(exact.joint[0, 1]) == pytest.approx(limit, rel=1e4 / scale**2 + 1e-9)
    assert 0 <= exact.joint[0, 1] <= 1
    sketched = align([sketch_of(spec_of(8192), task).signature() for task in tasks], "plain")
    assert abs(float(sketched.joint[0, 1]) - limit) < 5 * float(sketched.stderr_sketch[0, 1]) < 0.2


def test_an_outlier_in_one_half_breaks_split_norms_and_is_reported():
    # Its square is in one half alone, so that the norm grows by its length and the product by the square.
    for scale in (1e3, 1e6):
        table = exact_align(with_outlier(scale), "split")
        assert torch.isfinite(table.joint).all()
        assert table.joint[0, 1] > scale / 20 and table.above_one >= 1


def test_unit_joint_weighs_an_outlier_as_any_other_token():
    spec = spec_of(extra_streams=("unit_joint",))
    plain, huge = (
        align_stream([sketch_of(spec, task).signature() for task in with_outlier(scale)], "unit_joint")
        for scale in (1.0, 1e9)
    )
    torch.testing.assert_close(huge, plain, rtol=1e-6, atol=1e-6)


def test_float32_overflows_with_a_message_and_nothing_is_added():
    fine, broken = with_outlier(1e12, torch.float32)[0], with_outlier(1e20, torch.float32)[0]
    sketch = sketch_of(spec_of(), fine)
    before = sketch.signature()
    with pytest.raises(FisherSketchError, match="features overflow float32: .* or give float64"):
        sketch.update(*broken)
    assert sketch.signature() == before
    assert torch.isfinite(sketch_of(spec_of(), with_outlier(1e20)[0]).state()[0]["sums"]).all()


def million_samples(count, dtype):
    generator = torch.Generator().manual_seed(count)
    a = torch.randn(count, 2, generator=generator, dtype=torch.float64)
    e = torch.randn(count, 3, generator=generator, dtype=torch.float64) / 3
    a[0] *= 1e4  # the others must not be lost beside the first
    return a.to(dtype), e.to(dtype), torch.arange(count)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-14), (torch.float32, 2e-7)])
@pytest.mark.parametrize(("count", "batch"), [(2, 1), (10, 3), (1000, 1), (100_000, 512), (1_000_000, 4096)])
def test_accumulators_do_not_drift(count, batch, dtype, tolerance):
    spec = SketchSpec(2, 3, 8, "rademacher")
    a, e, group = million_samples(count, dtype)
    sums = sketch_of(spec, (a, e, group), batch).state()[0]["sums"]
    (w, v), (x, y) = (
        [rows.T for rows in p.project(torch.eye(p.size, dtype=torch.float64))] for p in spec.projections()
    )
    a, e = a.double(), e.double()
    # What a feature may be at most: w.a is rounded to this scale, however small it comes out.
    size_a, size_e = a.abs().sum(1) ** 2, e.abs().sum(1) ** 2
    sizes = (size_a * size_e, size_a, size_e)
    for k in (0, 5):
        phi_a, phi_e = (a @ w[k]) * (a @ v[k]), (e @ x[k]) * (e @ y[k])
        for half in (0, 1):
            for stream, phi in enumerate((phi_a * phi_e, phi_a, phi_e)):
                off = abs(float(sums[half, stream, k]) - math.fsum(phi[half::2].tolist()))
                assert off <= tolerance * float(sizes[stream][half::2].sum())


@every_projection
@pytest.mark.parametrize("classes", [2, 3, 5, 62, 100, 1000])
def test_sizes_that_are_no_power_of_two_and_more_features_than_rows(projection, classes):
    # 4,096 features of 8 rows of 3 and K numbers.
    tasks = [grouped_task(seed, 8, 3, classes, length=2) for seed in (0, 1)]
    exact = exact_align(tasks, "plain")
    spec = SketchSpec(3, classes, 4096, projection)
    table = align([sketch_of(spec, task).signature() for task in tasks], "plain")
    assert abs(float(table.joint[0, 1] - exact.joint[0, 1])) < 5 * float(table.stderr_sketch[0, 1]) + 1e-6
    for name in MEASURES:
        assert abs(float(getattr(table, name)[0, 1] - getattr(exact, name)[0, 1])) < 0.1


@every_projection
@pytest.mark.parametrize("self_terms", ["plain", "split"])
def test_errors_that_are_all_equal(projection, self_terms):
    # Gamma has rank one and is the same for all: only activations tell tasks apart.
    tasks = [(a, torch.full_like(e, 0.1), group) for a, e, group in (grouped_task(seed) for seed in (0, 1))]
    exact = exact_align(tasks, self_terms)
    assert float(exact.error[0, 1]) == pytest.approx(1.0, rel=1e-12)
    assert float(exact.joint[0, 1]) == pytest.approx(float(exact.activation[0, 1]), rel=1e-12)
    assert float(exact.coupling[0, 1]) == pytest.approx(1.0, rel=1e-12)
    made = [sketch_of(SketchSpec(6, 10, 8192, projection), task).signature() for task in tasks]
    table = align(made, self_terms)
    assert float(table.error[0, 1]) == pytest.approx(1.0, abs=1e-6)
    for name in ("joint", "coupling"):
        assert abs(float(getattr(table, name)[0, 1] - getattr(exact, name)[0, 1])) < 0.1


def test_errors_that_are_all_zero_leave_the_task_undefined():
    tasks = [grouped_task(seed) for seed in (0, 1, 2)]
    tasks[0] = (tasks[0][0], torch.zeros_like(tasks[0][1]), tasks[0][2])
    for table in (exact_align(tasks), align([sketch_of(spec_of(), task).signature() for task in tasks])):
        assert table.joint[0].isnan().all() and table.error[0].isnan().all()
        assert torch.isfinite(table.joint[1:, 1:]).all() and table.undefined > 0
