"""The streaming sketch: what may change its sums, and what may not."""

import weakref

import pytest
import torch
from fisher_tasks import grouped_task, relative_difference, sketch_of

from fishersketch import FisherSketch, FisherSketchError, SketchSpec, align
from fishersketch.sketch import _CHUNK_BYTES

PROJECTIONS = ("rademacher", "hadamard", "block_hadamard")
every_projection = pytest.mark.parametrize("projection", PROJECTIONS)
every_unit = pytest.mark.parametrize("unit", ["token", "sequence"])
every_dtype = pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-6)])


def spec_of(projection="block_hadamard", m=64, unit="token", **others):
    return SketchSpec(6, 10, m, projection=projection, sample_unit=unit, **others)


@every_projection
@every_unit
@every_dtype
def test_batches_and_their_order_change_nothing(projection, unit, dtype, tolerance):
    spec, task = spec_of(projection, unit=unit), grouped_task(0, dtype=dtype)
    whole = sketch_of(spec, task)
    for batch in (1, 7, 47) if unit == "token" else (4, 12, 44):
        assert relative_difference(sketch_of(spec, task, batch), whole) <= tolerance
    order = (
        torch.arange(48).view(12, 4)[torch.randperm(12, generator=torch.Generator().manual_seed(0))].flatten()
    )
    assert relative_difference(sketch_of(spec, [part[order] for part in task], 12), whole) <= tolerance


@every_dtype
def test_chunks_within_an_update_change_nothing(dtype, tolerance, monkeypatch):
    for unit in ("token", "sequence"):
        spec, task = spec_of(unit=unit), grouped_task(0, dtype=dtype)
        whole = sketch_of(spec, task)
        with monkeypatch.context() as patch:
            patch.setattr("fishersketch.sketch._CHUNK_BYTES", 5 * (6 + 10 + 4 * 64) * dtype.itemsize)
            assert relative_difference(sketch_of(spec, task), whole) <= tolerance


@every_projection
@every_unit
@every_dtype
def test_a_tree_of_merges_is_one_pass(projection, unit, dtype, tolerance):
    spec, task = spec_of(projection, unit=unit), grouped_task(0, dtype=dtype)
    whole = sketch_of(spec, task)
    leaves = [sketch_of(spec, part) for part in zip(*(tensor.split(8) for tensor in task), strict=True)]
    leaves[0].merge(leaves[3])
    leaves[2].merge(leaves[5])
    leaves[1].merge(leaves[2])
    leaves[4].merge(leaves[0])
    root = FisherSketch(spec)
    root.merge(leaves[4])
    root.merge(leaves[1])
    assert relative_difference(root, whole) <= tolerance
    assert root.num_samples == whole.num_samples and root.num_tokens == whole.num_tokens == 48
    assert root.signature().num_samples == whole.signature().num_samples


def test_vocabulary_size_batches_agree_in_float32():
    spec = SketchSpec(16, 49152, 256)
    generator = torch.Generator().manual_seed(0)
    task = (
        torch.randn(12, 16, generator=generator),
        torch.randn(12, 49152, generator=generator),
        torch.arange(12),
    )
    for batch in (1, 5):
        assert relative_difference(sketch_of(spec, task, batch), sketch_of(spec, task)) <= 1e-6


def test_state_is_192_kib_at_4096_features():
    sketch = FisherSketch(SketchSpec(576, 49152))
    assert sketch.state_bytes == sketch.spec.state_bytes == 196_608
    assert sketch.state()[0]["sums"].numel() * 8 == 196_608


def test_sketches_of_one_recipe_share_its_signs():
    spec = spec_of("rademacher", seed=99)
    first, second = FisherSketch(spec), FisherSketch(spec)
    assert first._projections[0] is second._projections[0]
    assert first._projections[0] is not FisherSketch(spec_of("rademacher", seed=98))._projections[0]
    kept = weakref.ref(first._projections[0])
    del first
    assert kept() is not None
    del second
    assert kept() is None


@every_projection
def test_token_sums_follow_the_definition(projection):
    spec, (a, e, group) = spec_of(projection, m=40), grouped_task(1)
    tensors, _ = sketch_of(spec, (a, e, group)).state()
    rows = [torch.stack(p.project(torch.eye(p.size, dtype=torch.float64))) for p in spec.projections()]
    phi_a, phi_e = (a @ rows[0]).prod(0), (e @ rows[1]).prod(0)
    for half in (0, 1):
        kept = group % 2 == half
        expected = torch.stack([(phi_a * phi_e)[kept].sum(0), phi_a[kept].sum(0), phi_e[kept].sum(0)])
        torch.testing.assert_close(tensors["sums"][half], expected, rtol=1e-10, atol=1e-10)
        assert tensors["counts"][half] == kept.sum()


@every_projection
def test_sequence_sums_follow_the_definition(projection):
    spec, (a, e, _) = spec_of(projection, m=40, unit="sequence"), grouped_task(1)
    group = torch.tensor([5] * 9 + [2] + [8] * 20 + [3] * 18)  # any length, any number
    tensors, _ = sketch_of(spec, (a, e, group)).state()
    rows = [torch.stack(p.project(torch.eye(p.size, dtype=torch.float64))) for p in spec.projections()]
    (w, w_), (x, x_) = rows
    expected = torch.zeros(2, 3, 40, dtype=torch.float64)
    for number in (5, 2, 8, 3):
        g = e[group == number].T @ a[group == number]  # (K, d)
        expected[number % 2, 0] += ((x.T @ g) * w.T).sum(1) * ((x_.T @ g) * w_.T).sum(1)
        expected[number % 2, 1] += ((w.T @ g.T @ g) * w_.T).sum(1)
        expected[number % 2, 2] += ((x.T @ g @ g.T) * x_.T).sum(1)
    torch.testing.assert_close(tensors["sums"], expected, rtol=1e-10, atol=1e-10)
    assert tensors["counts"].tolist() == [2, 2]


def test_one_token_sequences_are_tokens_with_scaled_marginals():
    a, e, _ = grouped_task(2)
    task = (a, e, torch.arange(48))
    tokens, sequences = (
        sketch_of(spec_of(unit=unit), task).state()[0]["sums"] for unit in ("token", "sequence")
    )
    torch.testing.assert_close(sequences[:, 0], tokens[:, 0])
    unit_e = sketch_of(spec_of(), (a * e.norm(dim=1, keepdim=True), e, task[2])).state()[0]["sums"]
    torch.testing.assert_close(sequences[:, 1], unit_e[:, 1])


def test_halves_go_by_the_parity_of_the_group_and_not_by_token():
    a, e, group = grouped_task(3)
    signature = sketch_of(spec_of(), (a, e, group)).signature()
    assert signature.num_samples == (24, 24)
    # Rows of one sequence share their half wherever they stand, and only parity matters.
    order = torch.randperm(48, generator=torch.Generator().manual_seed(0))
    for same in ((a[order], e[order], group[order]), (a, e, 100 + group * 7)):
        other = sketch_of(spec_of(), same).signature().self_terms["split"]
        assert other.joint == pytest.approx(signature.self_terms["split"].joint, rel=1e-10)
    by_token = sketch_of(spec_of(), (a, e, torch.arange(48))).signature()
    assert by_token.self_terms["split"].joint != pytest.approx(signature.self_terms["split"].joint, rel=1e-3)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.uint8, torch.int64])
@every_unit
def test_groups_of_any_whole_type(dtype, unit):
    a, e, group = grouped_task(3)
    expected = sketch_of(spec_of(unit=unit), (a, e, group))
    assert relative_difference(sketch_of(spec_of(unit=unit), (a, e, group.to(dtype))), expected) == 0


@pytest.mark.parametrize("streams", [("mean_gradient",), ("unit_joint",), ("unit_joint", "mean_gradient")])
def test_extra_streams_leave_the_others_alone(streams):
    task = grouped_task(4)
    plain, more = (sketch_of(spec_of(extra_streams=extra), task) for extra in ((), streams))
    assert torch.equal(more.state()[0]["sums"][:, :3], plain.state()[0]["sums"])
    assert more.state_bytes == (3 + len(streams)) * 2 * 64 * 8
    assert list(more.signature().payload) == ["joint", "activation", "error", *streams]


def test_unit_joint_is_the_joint_stream_of_rows_of_unit_length():
    a, e, group = grouped_task(4)
    a[5], e[9] = 0.0, 0.0  # a row without a direction adds nothing
    unit = sketch_of(spec_of(extra_streams=("unit_joint",)), (a, e, group)).signature()
    scaled = tuple(x / x.norm(dim=1, keepdim=True).clamp_min(1e-300) for x in (a, e))
    expected = sketch_of(spec_of(), (*scaled, group)).signature()
    torch.testing.assert_close(unit.stream("unit_joint"), expected.stream("joint"), rtol=1e-6, atol=1e-7)


@every_projection
def test_mean_gradient_stream_is_unbiased(projection):
    first, second = grouped_task(5), grouped_task(6)
    truth = float(((first[1].T @ first[0]) * (second[1].T @ second[0])).sum()) / 48**2
    values = []
    for seed in range(300):
        spec = spec_of(projection, seed=seed, extra_streams=("mean_gradient",))
        psi = [sketch_of(spec, task).state()[0]["sums"].sum(0)[3] / 48 for task in (first, second)]
        values.append(float(psi[0] @ psi[1]) / 64)
    values = torch.tensor(values)
    assert abs(values.mean() - truth) < 4 * values.std() / 300**0.5


@every_unit
def test_a_state_goes_on_exactly(unit):
    spec, task = spec_of(unit=unit, extra_streams=()), grouped_task(7)
    first, second = ([part[rows] for part in task] for rows in (slice(0, 20), slice(20, 48)))
    through = sketch_of(spec, first, provenance={"model": "tiny"})
    resumed = FisherSketch.from_state(*through.state())
    for sketch in (through, resumed):
        sketch.update(*second)
    assert resumed.spec == through.spec and resumed.provenance == {"model": "tiny"}
    assert resumed.num_tokens == 48 and relative_difference(resumed, through) == 0
    assert resumed.signature() == through.signature()
    if unit == "sequence":
        again = FisherSketch.from_state(*through.state())
        with pytest.raises(FisherSketchError, match="sequence 11 goes on from the last update"):
            again.update(*(part[-1:] for part in task))


def test_a_state_is_a_copy():
    sketch = sketch_of(spec_of(), grouped_task(7))
    tensors, header = sketch.state()
    before = sketch.signature()
    resumed = FisherSketch.from_state(tensors, header)
    tensors["sums"].zero_()
    header["provenance"]["model"] = "another"
    assert sketch.signature() == before == resumed.signature()


def test_signatures_do_not_stop_the_stream():
    task = grouped_task(8)
    stopped = sketch_of(spec_of(), [part[:20] for part in task])
    stopped.signature("int4")
    stopped.update(*(part[20:] for part in task))
    assert relative_difference(stopped, sketch_of(spec_of(), task)) <= 1e-12


@every_unit
def test_empty_updates_count_nothing(unit):
    sketch = FisherSketch(spec_of(unit=unit))
    empty = torch.zeros(0, dtype=torch.int64)
    sketch.update(torch.zeros(0, 6), torch.zeros(0, 10), empty)
    assert sketch.num_samples == 0
    with pytest.raises(FisherSketchError, match="the sketch has seen no samples"):
        sketch.signature()
    sketch.update(*grouped_task(8))
    assert sketch.num_tokens == 48


def test_a_huge_outlier_dominates_and_does_not_overflow_float32():
    a, e, group = grouped_task(9, dtype=torch.float32)
    a[7] *= 1e6
    outlier, truth = (
        sketch_of(spec_of(m=512), (a, e, group)),
        sketch_of(spec_of(m=512), (a.double(), e.double(), group)),
    )
    assert relative_difference(outlier, truth) < 1e-6
    table = align([outlier.signature(), truth.signature()], self_terms="plain")
    assert table.joint[0, 1] == pytest.approx(1.0, abs=1e-6)


def test_chunks_are_bounded():
    spec = SketchSpec(8, 1000, 64)
    with LargestTensor() as seen:
        sketch = FisherSketch(spec)
        rows = 20_000
        errors = torch.ones(1, 1000, dtype=torch.bfloat16).expand(rows, -1)  # 40 MB if it were ever copied
        sketch.update(torch.ones(1, 8).expand(rows, -1), errors, torch.zeros(rows, dtype=torch.int64))
    assert sketch.num_samples == rows
    assert seen.bytes < 2 * _CHUNK_BYTES


def test_a_long_sequence_is_projected_in_chunks():
    spec, rows = SketchSpec(8, 20_000, 16, sample_unit="sequence"), 1500
    with LargestTensor() as seen:
        sketch = FisherSketch(spec)
        errors = torch.ones(1, 20_000, dtype=torch.bfloat16).expand(rows, -1)
        sketch.update(torch.ones(1, 8).expand(rows, -1), errors, torch.zeros(rows, dtype=torch.int64))
    assert sketch.num_samples == 1 and sketch.num_tokens == rows
    assert seen.bytes < max(2 * _CHUNK_BYTES, 2 * 4 * rows**2)


class LargestTensor(torch.utils._python_dispatch.TorchDispatchMode):
    """Remembers the largest block of memory that any operation made or returned."""

    def __init__(self):
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, list | tuple) else [result]:
            if isinstance(tensor, torch.Tensor):
                self.bytes = max(self.bytes, tensor.untyped_storage().nbytes())
        return result
