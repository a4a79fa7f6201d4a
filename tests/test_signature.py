"""Signatures: sizes, files, few bits."""

import json
import os
import stat

import pytest
import torch
from fisher_tasks import STREAMS, grouped_task, sketch_of
from safetensors import safe_open

from fishersketch import FisherSketch, FisherSketchError, SketchSpec, TaskSignature, align

DTYPES = ("float32", "int8", "int4")
every_dtype = pytest.mark.parametrize("dtype", DTYPES)
# As experiments write it: fingerprints, label mode, label seed.
PROVENANCE = {
    "model": "smollm2-135m-instruct:9f3c01a7d2b4e658",
    "tokenizer": "4b7e1d92c0a83f56",
    "label_mode": "model",
    "label_seed": 1,
}


def signature_of(seed=0, m=64, dtype="float32", provenance=PROVENANCE, **others):
    spec = SketchSpec(6, 10, m, **others)
    return sketch_of(spec, grouped_task(seed), provenance=provenance).signature(dtype)


@every_dtype
@pytest.mark.parametrize("m", [1, 2, 63, 64])
@pytest.mark.parametrize(
    "others", [{}, {"extra_streams": ("mean_gradient", "unit_joint")}, {"sample_unit": "sequence"}]
)
def test_a_saved_signature_comes_back_equal(dtype, m, others, tmp_path):
    signature = signature_of(m=m, dtype=dtype, **others)
    for path in (tmp_path / "task.safetensors", str(tmp_path / "task.safetensors")):
        signature.save(path)
        loaded = TaskSignature.load(path)
        assert loaded == signature
        assert (
            type(loaded.num_samples) is tuple and loaded.self_terms["split"] == signature.self_terms["split"]
        )
        for name in loaded.spec.streams:
            assert torch.equal(loaded.stream(name), signature.stream(name))
            assert loaded.stream(name).dtype == torch.float64
    assert os.listdir(tmp_path) == ["task.safetensors"]


def test_signatures_differ_where_anything_does():
    signature = signature_of()
    assert signature == signature_of() and signature != "signature"
    for other in (
        signature_of(seed=1),
        signature_of(dtype="int8"),
        signature_of(m=63),
        signature_of(provenance={}),
    ):
        assert signature != other


def test_a_signature_without_halves_has_plain_terms_alone(tmp_path):
    a, e, _ = grouped_task(0)
    spec = SketchSpec(6, 10, 64)
    for group in (None, torch.zeros(48, dtype=torch.int64)):
        sketch = FisherSketch(spec)
        sketch.update(a, e, group)
        sketch.signature().save(tmp_path / "task")
        assert set(TaskSignature.load(tmp_path / "task").self_terms) == {"plain"}


@pytest.mark.parametrize(("m", "dtype"), [(4096, "float32"), (16384, "int8"), (32768, "int4")])
def test_payload_of_16_kib_and_a_header_below_1_kib(m, dtype, tmp_path):
    spec = SketchSpec(576, 49152, m)
    a, e = torch.ones(2, 576), torch.ones(2, 49152)
    e[1, :5000] *= -0.123456789
    signature = sketch_of(spec, (a, e, torch.arange(2)), provenance=PROVENANCE).signature(dtype)
    signature.save(tmp_path / "task")
    assert signature.signature_bytes == 16_384
    header = (tmp_path / "task").stat().st_size - 3 * 16_384
    assert 0 < header < 1024


def test_the_file_is_plain_safetensors_that_others_may_read(tmp_path):
    signature_of().save(tmp_path / "task")
    with safe_open(tmp_path / "task", framework="numpy") as file:
        assert set(file.keys()) == set(STREAMS)
        assert json.loads(file.metadata()["fishersketch"])["spec"]["num_features"] == 64
        assert file.get_tensor("joint").dtype == "float32"


def test_a_new_file_follows_the_umask(tmp_path):
    old = os.umask(0o022)
    try:
        signature_of().save(tmp_path / "task")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "task").stat().st_mode) == 0o644


def test_saving_replaces_the_old_file(tmp_path):
    signature_of().save(tmp_path / "task")
    signature_of(seed=1).save(tmp_path / "task")
    assert TaskSignature.load(tmp_path / "task") == signature_of(seed=1)


@pytest.mark.parametrize("path", ["gone/task", "file/task", "folder"])
def test_what_cannot_be_written_is_named_and_leaves_nothing(path, tmp_path):
    (tmp_path / "file").write_text("kept")
    (tmp_path / "folder").mkdir()
    with pytest.raises(FisherSketchError, match=f"{path}: cannot write the signature"):
        signature_of().save(tmp_path / path)
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"] and not os.listdir(tmp_path / "folder")
    assert (tmp_path / "file").read_text() == "kept"


def test_a_write_that_fails_midway_leaves_the_old_file(tmp_path, monkeypatch):
    signature_of().save(tmp_path / "task")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        FisherSketchError, match=r"task: cannot write the signature \(No space left on device\)"
    ):
        signature_of(seed=1).save(tmp_path / "task")
    assert os.listdir(tmp_path) == ["task"]
    assert TaskSignature.load(tmp_path / "task") == signature_of()


@pytest.mark.parametrize(("dtype", "share"), [("int8", 0.06), ("int4", 1.0)])
@pytest.mark.parametrize("self_terms", ["split", "plain"])
def test_few_bits_cost_less_than_the_features_do(dtype, share, self_terms):
    sketches = [sketch_of(SketchSpec(6, 10, 4096), grouped_task(seed, samples=200)) for seed in range(6)]
    exact, coarse = (
        align([sketch.signature(kind) for sketch in sketches], self_terms) for kind in ("float32", dtype)
    )
    stderr = exact.stderr_sketch.square().mean().sqrt()
    for name in ("joint", "activation", "error"):
        rms = (getattr(coarse, name) - getattr(exact, name)).square().mean().sqrt()
        assert 0 < rms < share * stderr
    assert (coarse.coupling - exact.coupling).square().mean().sqrt() < 4 * share * stderr
    assert torch.equal(coarse.squared_gap, exact.squared_gap)  # self terms are kept apart from the features


@every_dtype
def test_self_terms_are_those_of_the_sums_and_not_of_the_stored_features(dtype):
    signature, exact = signature_of(dtype=dtype), signature_of()
    assert signature.self_terms == exact.self_terms
    own = float(signature.stream("joint").square().mean())
    assert own == pytest.approx(exact.self_terms["plain"].joint, rel=0.05 if dtype == "int4" else 1e-3)


def test_scale_of_the_samples_does_not_matter_at_any_magnitude():
    a, e, group = grouped_task(0)
    spec = SketchSpec(6, 10, 64)
    expected = align([
        sketch_of(spec, (a, e, group)).signature(),
        sketch_of(spec, grouped_task(1)).signature(),
    ])
    for scale in (1e-30, 1e-12, 1e12, 1e30):
        scaled = sketch_of(spec, (a * scale, e / scale**0.5, group))
        table = align([scaled.signature(), sketch_of(spec, grouped_task(1)).signature()])
        assert table.joint[0, 1] == pytest.approx(float(expected.joint[0, 1]), rel=1e-6)
        assert table.stderr_sketch[0, 1] == pytest.approx(float(expected.stderr_sketch[0, 1]), rel=1e-6)


def test_features_too_large_to_square_are_refused():
    a, e, group = grouped_task(0)
    sketch = sketch_of(SketchSpec(6, 10, 64), (a * 1e60, e * 1e60, group))
    with pytest.raises(FisherSketchError, match="self terms overflow float64: scale"):
        sketch.signature()


def test_unknown_names_are_refused():
    with pytest.raises(FisherSketchError, match="dtype='float16': must be one of float32, int8, int4"):
        signature_of(dtype="float16")
    with pytest.raises(FisherSketchError, match="no stream 'unit_joint': it holds joint, activation, error"):
        signature_of().stream("unit_joint")
