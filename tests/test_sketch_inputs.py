"""What a sketch accepts, and what it refuses without being changed."""

import copy
import math
import pickle

import numpy as np
import pytest
import torch
from fisher_tasks import grouped_task, relative_difference, sketch_of

from fishersketch import FisherSketch, FisherSketchError, SketchSpec, align

SPEC = SketchSpec(6, 10, 64)
SEQUENCES = SketchSpec(6, 10, 64, sample_unit="sequence")


@pytest.fixture
def task():
    return grouped_task(0, dtype=torch.float32)


@pytest.mark.parametrize("projection", ["rademacher", "hadamard", "block_hadamard"])
def test_gradients_are_neither_needed_nor_kept(task, projection):
    a, e, group = task
    spec = SketchSpec(6, 10, 64, projection)
    sketch = FisherSketch(spec)
    sketch.update(a.requires_grad_(), e * a.sum(), group)
    expected = sketch_of(spec, (a.detach(), (e * a.sum()).detach(), group))
    assert relative_difference(sketch, expected) == 0
    assert not sketch.state()[0]["sums"].requires_grad
    sketch.signature()


@pytest.mark.parametrize("spec", [SPEC, SEQUENCES])
def test_autocast_does_not_round(task, spec):
    sketch = FisherSketch(spec)
    with torch.autocast("cpu", torch.bfloat16):
        sketch.update(*task)
    assert relative_difference(sketch, sketch_of(spec, task)) == 0


@pytest.mark.parametrize("cut", [20, 28])
def test_inference_mode_may_come_and_go(task, cut):
    with torch.inference_mode():
        sketch = FisherSketch(SPEC)
        sketch.update(*(part[:cut].clone() for part in task))
    sketch.update(*(part[cut:] for part in task))
    with torch.inference_mode():
        expected = sketch_of(SPEC, task)
    assert relative_difference(sketch, expected) <= 1e-6
    sketch.merge(expected)
    assert sketch.num_samples == 96


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("spec", [SPEC, SEQUENCES])
def test_half_precision_is_computed_in_float32(task, dtype, spec):
    a, e, group = task[0].to(dtype), task[1].to(dtype), task[2]
    expected = sketch_of(spec, (a.float(), e.float(), group))
    assert relative_difference(sketch_of(spec, (a, e, group)), expected) <= 1e-6


@pytest.mark.parametrize("spec", [SPEC, SEQUENCES])
def test_mixed_types_are_computed_in_the_wider(task, spec):
    a, e, group = task
    expected = sketch_of(spec, (a.double(), e.double(), group))
    for mixed in ((a.double(), e, group), (a, e.double(), group)):
        assert relative_difference(sketch_of(spec, mixed), expected) <= 1e-14


def test_memory_layout_does_not_matter(task):
    a, e, group = task
    views = (a.T.contiguous().T, torch.stack([e, e], 2)[:, :, 1], group.repeat_interleave(2)[::2])
    assert not any(view.is_contiguous() for view in views)
    assert relative_difference(sketch_of(SPEC, views), sketch_of(SPEC, task)) <= 1e-6


def test_a_sketch_can_be_copied_and_sent_to_a_process(task):
    sketch = sketch_of(SPEC, task)
    sent = pickle.dumps(sketch)
    assert len(sent) < 2 * sketch.state_bytes
    for twin in (copy.deepcopy(sketch), pickle.loads(sent)):
        twin.merge(sketch)
        assert twin.num_samples == 96 and sketch.num_samples == 48


def bad_updates():
    a, e, group = grouped_task(0, dtype=torch.float32)
    nan, inf = e.clone(), a.clone()
    nan[40, 3], inf[0, 0] = math.nan, math.inf
    half = torch.full((48, 6), 7e4).to(torch.float16)
    return {
        r"activations have shape \(48, 5\): expected \(N, 6\)": (a[:, :5], e, group),
        r"errors have shape \(48, 11\): expected \(N, 10\)": (a, torch.zeros(48, 11), group),
        r"activations have shape \(6,\): expected a row a sample": (a[0], e[:1], group[:1]),
        r"errors have shape \(2, 24, 10\)": (a, e.view(2, 24, 10), group),
        r"47 activations but 48 errors": (a[1:], e, group),
        r"group has shape \(47,\): expected \(48,\)": (a, e, group[1:]),
        r"group has shape \(48, 1\)": (a, e, group[:, None]),
        r"group has type torch.float32: expected whole numbers": (a, e, group / 2),
        r"group has type torch.bool": (a, e, group % 2 == 0),
        r"group holds -1: drop ignored rows": (a, e, group - 1),
        r"group: expected a torch.Tensor, not list": (a, e, group.tolist()),
        r"activations: expected a torch.Tensor, not numpy.ndarray; use torch.as_tensor": (
            a.numpy(),
            e,
            group,
        ),
        r"errors: expected a torch.Tensor, not NoneType": (a, None, group),
        r"activations have type torch.int64: expected real floating": (a.long(), e, group),
        r"errors have type torch.complex64": (a, e.to(torch.complex64), group),
        r"activations are on cpu and errors on meta: move one": (a, e.to("meta"), group),
        r"errors hold NaN or infinite values: the model overflowed": (a, nan, group),
        r"activations hold NaN or infinite values": (inf, e, group),
        r"activations hold NaN.*rather than float16": (half, e, group),
        r"features overflow float32: scale .* or give float64": (a * 1e20, e * 1e5, group),
    }


@pytest.mark.parametrize("unit", ["token", "sequence"])
@pytest.mark.parametrize("match", bad_updates())
def test_a_bad_update_is_refused_and_changes_nothing(match, unit):
    sketch = sketch_of(SketchSpec(6, 10, 64, sample_unit=unit), grouped_task(1), provenance={"model": "tiny"})
    before, tokens = sketch.signature(), sketch.num_tokens
    with pytest.raises(FisherSketchError, match=match) as caught:
        sketch.update(*bad_updates()[match])
    assert "\n" not in str(caught.value)
    assert sketch.signature() == before and sketch.num_tokens == tokens
    sketch.update(*grouped_task(2))
    assert sketch.num_tokens == 96


def test_mixed_groups_are_refused(task):
    a, e, group = task
    for first, second in ((group, None), (None, group)):
        sketch = FisherSketch(SPEC)
        sketch.update(a, e, first)
        with pytest.raises(FisherSketchError, match="group was given in some updates and not in others"):
            sketch.update(a, e, second)
        assert sketch.num_samples == 48
        other = FisherSketch(SPEC)
        other.update(a, e, second)
        with pytest.raises(FisherSketchError, match="one was given groups and the other not"):
            sketch.merge(other)
        assert sketch.num_samples == 48


def test_split_terms_need_groups_of_both_parities(task):
    a, e, group = task
    for number, (groups, counts) in enumerate([
        (None, "48 and 0"),
        (group * 2, "48 and 0"),
        (group * 2 + 1, "0 and 48"),
    ]):
        sketch = FisherSketch(SPEC)
        sketch.update(a, e, groups)
        signatures = [sketch.signature()]
        if number:
            with pytest.raises(
                FisherSketchError, match=f"signature 0 has {counts} samples.*ask for self_terms='plain'"
            ):
                align(signatures)
        else:
            with pytest.raises(FisherSketchError, match="signature 1 has 48 and 0 samples"):
                align([sketch_of(SPEC, task).signature(), *signatures])
        assert align(signatures, self_terms="plain").joint.tolist() == [[1.0]]


def test_sequences_must_be_whole(task):
    a, e, group = task
    apart = group.clone()
    apart[40] = 0
    sketch = FisherSketch(SEQUENCES)
    with pytest.raises(FisherSketchError, match="the rows of one sequence must stand together"):
        sketch.update(a, e, apart)
    with pytest.raises(FisherSketchError, match="group is missing: sample_unit='sequence' needs"):
        sketch.update(a, e)
    sketch.update(a[:18], e[:18], group[:18])
    with pytest.raises(FisherSketchError, match="sequence 4 goes on from the last update"):
        sketch.update(a[18:], e[18:], group[18:])
    assert sketch.num_tokens == 18 and sketch.num_samples == 5


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"seed": 1}, "seed: 0 against 1"),
        ({"num_features": 65}, "num_features: 64 against 65"),
        ({"projection": "hadamard"}, 'projection: "block_hadamard" against "hadamard"'),
        ({"sample_unit": "sequence"}, 'sample_unit: "token" against "sequence"'),
        ({"extra_streams": ("unit_joint",)}, r'extra_streams: \[\] against \["unit_joint"\]'),
        ({"activation_dim": 7, "error_dim": 9}, "activation_dim: 6 against 7; error_dim: 10 against 9"),
    ],
)
def test_merging_another_recipe_names_the_difference(change, match, task):
    sketch = sketch_of(SPEC, task)
    with pytest.raises(FisherSketchError, match=f"^sketches cannot be merged: {match}$"):
        sketch.merge(FisherSketch(SketchSpec(**{**SPEC.to_dict(), **change})))


def test_merging_another_provenance_names_the_difference(task):
    sketch = sketch_of(SPEC, task, provenance={"model": "a", "label_mode": "data"})
    other = sketch_of(SPEC, task, provenance={"model": "b", "tokenizer": "t", "label_mode": "data"})
    with pytest.raises(FisherSketchError, match='model: "a" against "b"; tokenizer: null against "t"$'):
        sketch.merge(other)
    with pytest.raises(FisherSketchError, match="cannot be merged with itself"):
        sketch.merge(sketch)
    assert sketch.num_samples == 48


@pytest.mark.parametrize(
    ("provenance", "match"),
    [
        ({"model": torch.float32}, r"provenance\['model'\]: must be a JSON value"),
        ({"loss": math.nan}, r"provenance\['loss'\]: must be a JSON value"),
        ("tiny", "provenance='tiny': must be a dictionary"),
        ({3: "model"}, r"provenance\[3\]: keys must be strings"),
    ],
)
def test_provenance_that_no_file_holds_is_refused(provenance, match):
    with pytest.raises(FisherSketchError, match=match):
        FisherSketch(SPEC, provenance)


def test_provenance_is_a_copy():
    provenance = {"layers": [1, 2]}
    sketch = FisherSketch(SPEC, provenance)
    provenance["layers"].append(3)
    assert sketch.provenance == {"layers": [1, 2]}


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"activation_dim": 0}, "activation_dim=0: must be a whole number of at least 1"),
        ({"error_dim": 3.0}, "error_dim=3.0: must be a whole number"),
        ({"num_features": True}, "num_features=True: must be a whole number"),
        ({"num_features": "64"}, "num_features='64': must be a whole number"),
        ({"seed": -1}, "seed=-1: must be a whole number of at least 0"),
        ({"projection": "gauss"}, "projection='gauss': must be one of rademacher, hadamard, block_hadamard"),
        ({"sample_unit": "word"}, "sample_unit='word': must be one of token, sequence"),
        (
            {"extra_streams": "unit_joint"},
            "extra_streams='unit_joint': must be a tuple of mean_gradient, unit_joint",
        ),
        ({"extra_streams": ("joint",)}, r"extra_streams=\('joint',\): must be a tuple of"),
        ({"extra_streams": ("unit_joint",) * 2}, "names a stream twice"),
        (
            {"extra_streams": ("unit_joint",), "sample_unit": "sequence"},
            "extra_streams: need sample_unit='token'",
        ),
    ],
)
def test_specs_are_checked(change, match):
    with pytest.raises(FisherSketchError, match=match):
        SketchSpec(**{"activation_dim": 6, "error_dim": 10, **change})


def test_specs_take_numpy_numbers_and_go_through_json():
    spec = SketchSpec(np.int64(6), np.int32(10), np.int64(64), extra_streams=["unit_joint"])
    assert type(spec.activation_dim) is int and spec == SketchSpec(6, 10, 64, extra_streams=("unit_joint",))
    assert SketchSpec.from_dict(spec.to_dict()) == spec
    assert hash(spec) == hash(SketchSpec.from_dict(spec.to_dict()))
    with pytest.raises(FisherSketchError, match=r"spec has fields \['seed'\]: expected \['activation_dim'"):
        SketchSpec.from_dict({"seed": 0})


@pytest.mark.parametrize(
    ("damage", "match"),
    [
        (lambda tensors, header: tensors.pop("counts"), r"not whole \(KeyError\('counts'\)\)"),
        (lambda tensors, header: header.pop("provenance"), r"not whole \(KeyError\('provenance'\)\)"),
        (lambda tensors, header: header["spec"].pop("seed"), "spec has fields"),
        (lambda tensors, header: header.update(provenance=["tiny"]), "provenance=.* must be a dictionary"),
        (lambda tensors, header: header["spec"].update(num_features=65), "does not fit its spec: sums"),
        (lambda tensors, header: tensors.update(sums=tensors["sums"].float()), "does not fit its spec: sums"),
        (lambda tensors, header: tensors["sums"].fill_(math.nan), "does not fit its spec: sums"),
        (
            lambda tensors, header: tensors.update(counts=torch.zeros(3, dtype=torch.int64)),
            "its spec: counts",
        ),
        (lambda tensors, header: tensors.update(tokens=torch.zeros(1)), "not whole"),
    ],
)
def test_damaged_states_are_refused(damage, match, task):
    tensors, header = sketch_of(SPEC, task).state()
    header["spec"] = dict(header["spec"])
    damage(tensors, header)
    with pytest.raises(FisherSketchError, match=match):
        FisherSketch.from_state(tensors, header)
