"""Alignments from signatures: what they converge to, how sure they are, what they count and refuse."""

import functools

import pytest
import torch
from fisher_tasks import grouped_task, sketch_of

from fishersketch import FisherSketchError, SketchSpec, align, exact_align

MEASURES = ("joint", "activation", "error", "coupling")
PROJECTIONS = ("rademacher", "hadamard", "block_hadamard")
every_projection = pytest.mark.parametrize("projection", PROJECTIONS)
every_choice = pytest.mark.parametrize("self_terms", ["split", "plain"])
every_unit = pytest.mark.parametrize("unit", ["token", "sequence"])
DIM, CLASSES = 12, 40
UPPER = torch.triu_indices(4, 4, 1)


@functools.cache
def related_tasks():
    """Four tasks with cosines from low to high: each shares some of its rows with the others."""
    common, number = grouped_task(100, 96, DIM, CLASSES), torch.arange(1000)
    tasks = []
    for seed, shared in enumerate((0, 32, 80, 96)):
        own = grouped_task(seed, 48, DIM, CLASSES)
        a, e = (torch.cat([common[part][:shared], own[part]]) for part in (0, 1))
        tasks.append((a, e, number[: len(a)] // 4))
    return tasks


def table_of(
    tasks, projection="block_hadamard", m=1024, seed=0, self_terms="split", unit="token", dtype="float32"
):
    spec = SketchSpec(tasks[0][0].shape[1], tasks[0][1].shape[1], m, projection, unit, seed)
    return align([sketch_of(spec, task).signature(dtype) for task in tasks], self_terms)


def tables_over_seeds(projection, m, seeds, unit="token"):
    """Alignments of the related tasks under many seeds: {self_terms: [table, ...]}."""
    tables = {"split": [], "plain": []}
    for seed in range(seeds):
        spec = SketchSpec(DIM, CLASSES, m, projection, unit, seed)
        signatures = [sketch_of(spec, task).signature() for task in related_tasks()]
        for self_terms, found in tables.items():
            found.append(align(signatures, self_terms))
    return tables


@every_projection
@every_unit
def test_sketches_converge_to_the_exact_alignment(projection, unit):
    names = [*MEASURES[:3], *(["coupling", "squared_gap"] if unit == "token" else [])]
    small, large = tables_over_seeds(projection, 256, 16, unit), tables_over_seeds(projection, 4096, 8, unit)
    for self_terms in small:
        truth = exact_align(related_tasks(), self_terms, unit)
        for name in names:
            few, many = (
                torch.stack([(getattr(table, name) - getattr(truth, name)).flatten() for table in tables])
                for tables in (small[self_terms], large[self_terms])
            )
            if name == "coupling":  # a ratio: at 256 features its denominator can come near 0
                assert 2 < few.abs().mean() / many.abs().mean()
                assert many.abs().median() < 0.1 and many.abs().max() < 1
            else:
                rms = float(many.square().mean().sqrt())
                assert 2.5 < few.square().mean().sqrt() / rms < 10  # 4 for 16 times the features
                assert rms < (0.03 if name != "squared_gap" else 0.1)  # 1 / 64 and a little
                assert many.abs().max() < 6 * rms


@pytest.mark.parametrize("projection", PROJECTIONS)
def test_the_standard_error_is_that_of_the_features(projection):
    for self_terms, tables in tables_over_seeds(projection, 1024, 70).items():
        truth = exact_align(related_tasks(), self_terms).joint
        assert truth[0, 1] < 0.1 and truth[2, 3] > 0.8
        scores = torch.stack([
            ((table.joint - truth) / table.stderr_sketch)[tuple(UPPER)] for table in tables
        ])
        spread = scores.std(0)
        assert (spread > 0.8).all() and (spread < (1.25 if projection == "rademacher" else 1.3)).all()
        assert scores.mean(0).abs().max() < 0.45
        for table in tables:
            assert torch.equal(table.stderr_sketch, table.stderr_sketch.T)
            assert not table.stderr_sketch.diagonal().any()


def test_the_standard_error_falls_as_root_m():
    small, large = (table_of(related_tasks(), m=m).stderr_sketch[tuple(UPPER)].mean() for m in (256, 4096))
    assert 2.8 < small / large < 5.6


@every_projection
@every_choice
def test_matrices_are_symmetric_with_a_diagonal_of_ones(projection, self_terms):
    table = table_of(related_tasks(), projection, 333, self_terms=self_terms)
    for name in MEASURES:
        matrix = getattr(table, name)
        assert matrix.shape == (4, 4) and matrix.dtype == torch.float64
        assert torch.equal(matrix, matrix.T)
        assert torch.equal(matrix.diagonal(), torch.ones(4, dtype=torch.float64))
    assert table.separability_gap.shape == table.squared_gap.shape == (4,)
    assert table.self_terms == self_terms


def test_scale_permutation_of_tasks_and_repetition():
    tasks = related_tasks()
    truth = table_of(tasks, self_terms="plain")
    scaled = table_of(
        [(a * (i + 0.5), e * -(7.0**i), g) for i, (a, e, g) in enumerate(tasks)], self_terms="plain"
    )
    repeated = table_of(
        [tuple(part.repeat(3, *[1] * (part.dim() - 1)) for part in task) for task in tasks],
        self_terms="plain",
    )
    turned = table_of(tasks[::-1], self_terms="plain")
    for name in MEASURES:
        for table in (scaled, repeated):
            torch.testing.assert_close(getattr(table, name), getattr(truth, name), rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(getattr(turned, name).flip(0, 1), getattr(truth, name))
    torch.testing.assert_close(scaled.squared_gap, truth.squared_gap, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("dtype", "most"), [("float32", 1e-6), ("int8", 1e-3), ("int4", 0.08)])
def test_a_task_beside_itself_is_one(dtype, most):
    task = related_tasks()[1]
    table = table_of([task, task], self_terms="plain", dtype=dtype)
    assert abs(table.joint[0, 1] - 1) < most
    assert table.stderr_sketch[0, 1] < 4e-3


def test_signatures_of_different_precision_compare():
    spec, tasks = SketchSpec(DIM, CLASSES, 4096), related_tasks()
    kinds = ("float32", "int8", "int4", "float32")
    mixed = align([sketch_of(spec, task).signature(kind) for task, kind in zip(tasks, kinds, strict=True)])
    assert (mixed.joint - table_of(tasks, m=4096).joint).abs().max() < 0.02


@every_unit
def test_one_task_and_one_feature(unit):
    one = table_of(related_tasks()[:1], unit=unit)
    assert one.joint.tolist() == one.coupling.tolist() == [[1.0]] and one.stderr_sketch.tolist() == [[0.0]]
    assert one.undefined == one.above_one == 0
    few = table_of(related_tasks(), m=1, self_terms="plain", unit=unit)
    assert torch.isfinite(few.joint).all()
    assert few.stderr_sketch[tuple(UPPER)].isnan().all() and not few.stderr_sketch.diagonal().any()


def independent_task(seed, samples=64):
    """Activations and errors drawn apart from each other: F = M (x) Gamma in the limit."""
    generator = torch.Generator().manual_seed(seed)
    a = 1 + torch.randn(samples, 4, generator=generator, dtype=torch.float64)
    e = torch.randn(samples, 5, generator=generator, dtype=torch.float64)
    return a, e, torch.arange(samples)


def test_the_gap_of_independent_samples_is_zero_if_split_and_far_from_it_if_plain():
    tasks = [independent_task(seed) for seed in range(60)]
    exact, plain = exact_align(tasks), exact_align(tasks, "plain")
    sketched = torch.cat([table_of([task], m=512, seed=seed).squared_gap for seed, task in enumerate(tasks)])
    for squared in (exact.squared_gap, sketched):
        assert squared.mean().abs() < 3 * squared.std() / 60**0.5
        assert (squared < 0).any() and (squared > 0).any()
    assert plain.squared_gap.min() > 0.05 and plain.squared_gap.mean() > 2 * exact.squared_gap.std()
    negative = exact.squared_gap < 0
    assert exact.separability_gap[negative].isnan().all()
    torch.testing.assert_close(exact.separability_gap[~negative] ** 2, exact.squared_gap[~negative])


def test_the_gap_of_dependent_samples_is_seen():
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(2000, 4, generator=generator, dtype=torch.float64)
    task = (a, a[:, :3] * 2.0, torch.arange(2000))  # e follows a
    for table in (exact_align([task]), exact_align([task], "plain"), table_of([task], m=8192)):
        assert 0.5 < float(table.separability_gap) < 3


def orthogonal_halves():
    """A task whose even sequences share no direction with its odd ones: its split self term is 0."""
    a, e, g = grouped_task(0, 16, DIM, CLASSES)
    a[:, :6] *= (g % 2)[:, None]
    a[:, 6:] *= (1 - g % 2)[:, None]
    return a, e, g


def test_self_terms_that_are_not_positive_are_undefined_and_counted():
    tasks = [orthogonal_halves(), *related_tasks()[:2]]
    exact = exact_align(tasks)
    signs = []
    tables = [exact, *(table_of(tasks, m=64, seed=seed) for seed in range(12))]
    for seed, table in enumerate(tables):
        bad = table.joint[0, 0].isnan()
        signs.append(bool(bad))
        assert table.joint[0].isnan().all() == bad and table.joint[:, 0].isnan().all() == bad
        assert torch.isfinite(table.joint[1:, 1:]).all()
        assert table.undefined == int((table.joint + table.coupling).isnan().triu(1).sum())
        if bad:
            assert table.undefined >= 2
            assert table.above_one == int(table.joint[1, 2] > 1)
            assert seed == 0 or table.stderr_sketch[0, 1].isnan()
    assert signs[0] and 3 <= sum(signs) < len(signs)


def test_cosines_above_one_are_counted_and_not_clipped():
    a, e, g = grouped_task(0, samples=32, dim=32, classes=200)
    generator = torch.Generator().manual_seed(0)
    near = (a + 0.1 * torch.randn(a.shape, generator=generator, dtype=torch.float64), e, g)
    for table in (exact_align([(a, e, g), near]), table_of([(a, e, g), near], m=4096)):
        assert table.joint[0, 1] > 1.1 and table.above_one == 1 and table.undefined == 0
    for table in (
        exact_align([(a, e, g), near], "plain"),
        table_of([(a, e, g), near], m=4096, self_terms="plain"),
    ):
        assert table.joint[0, 1] < 1.01 and table.above_one == int(table.joint[0, 1] > 1)


def test_refusals():
    spec, task = SketchSpec(DIM, CLASSES, 64), related_tasks()[0]
    signature = sketch_of(spec, task, provenance={"model": "a"}).signature()
    with pytest.raises(FisherSketchError, match="no signatures given: nothing to align"):
        align([])
    with pytest.raises(FisherSketchError, match="self_terms='half': must be one of split, plain"):
        align([signature], self_terms="half")
    other = sketch_of(spec, task, provenance={"model": "b", "label_mode": "data"}).signature()
    with pytest.raises(
        FisherSketchError,
        match='^signatures 0 and 2 cannot be compared: label_mode: null against "data"; model: "a" ag',
    ):
        align([signature, signature, other])
    for change, text in (
        ({"seed": 4}, "seed: 0 against 4"),
        ({"num_features": 63}, "num_features: 64 against 63"),
        ({"sample_unit": "sequence"}, 'sample_unit: "token" against "sequence"'),
    ):
        different = SketchSpec(**{**spec.to_dict(), **change})
        other = sketch_of(different, task, provenance={"model": "a"}).signature()
        with pytest.raises(FisherSketchError, match=f"^signatures 0 and 1 cannot be compared: {text}$"):
            align([signature, other])
