"""Files that are no whole signature: each is refused by one line that names the file."""

import json
import math

import numpy as np
import pytest
import torch
from fisher_tasks import grouped_task, sketch_of
from safetensors.torch import load_file, save_file

from fishersketch import FisherSketchError, SketchSpec, TaskSignature
from fishersketch.signature_file import _digest


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "task.safetensors"
    sketch_of(SketchSpec(6, 10, 33), grouped_task(0), provenance={"model": "tiny"}).signature().save(path)
    return path


def refuse(path, reason=""):
    with pytest.raises(FisherSketchError, match=reason) as caught:
        TaskSignature.load(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ") and "\n" not in message and len(message) < len(str(path)) + 260
    return message


def test_missing_files_and_folders(tmp_path, file):
    refuse(tmp_path / "none", "there is no such signature file")
    refuse(tmp_path, "a folder, not a signature file")
    refuse(file / "below", "there is no such signature file")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 7,
        b"\0" * 64,
        b"\xff" * 64,
        b"{}",
        b"\x80\x04]q\x00.",
        b"PK\x03\x04" + b"\0" * 200,
        b"text\n" * 90,
    ],
)
def test_other_files(content, tmp_path):
    (tmp_path / "other").write_bytes(content)
    refuse(tmp_path / "other", "not a whole signature .*; make it again")


def test_no_pickle_is_ever_loaded(tmp_path):
    torch.save({"joint": torch.zeros(3)}, tmp_path / "pickle")
    refuse(tmp_path / "pickle", "not a whole signature")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda h: h.pop("extra_self_terms"), "no entry 'extra_self_terms'"),
        (lambda h: h["extra_self_terms"].pop("split"), "no entry 'split'"),
        (lambda h: h["extra_self_terms"].update(plain=[1.0, 2.0]), "zip"),
        (lambda h: h["extra_self_terms"].update(plain=[math.nan]), "nan is no finite number"),
    ],
)
def test_hostile_terms_of_extra_streams(change, reason, file):
    sketch_of(SketchSpec(6, 10, 33, extra_streams=("unit_joint",)), grouped_task(0)).signature().save(file)
    rewritten(file, change)
    refuse(file, f"not a whole signature \\(.*{reason}")


def test_any_length_but_the_whole_is_refused(file):
    content = file.read_bytes()
    for length in [*range(0, len(content), 17), len(content) - 1]:
        file.write_bytes(content[:length])
        refuse(file, "not a whole signature")
    file.write_bytes(content + b"\0")
    refuse(file, "not a whole signature")


def test_any_flipped_bit_is_noticed(file):
    content, signature = file.read_bytes(), TaskSignature.load(file)
    for place in range(len(content)):
        flipped = bytearray(content)
        flipped[place] ^= 1 << place % 8
        file.write_bytes(flipped)
        if chr(content[place]).isdigit() and _loads_as(file, signature):
            continue  # a last digit that its number does not need
        refuse(file, "not a whole signature")


def _loads_as(file, signature):
    try:
        return TaskSignature.load(file) == signature
    except FisherSketchError:
        return False


def rewritten(file, change=None, tensors=None, seal=True):
    """Writes the file anew with another header or other tensors, its digest made to fit."""
    from safetensors import safe_open

    with safe_open(file, framework="pt") as opened:
        header = json.loads(opened.metadata()["fishersketch"])
    payload = {**load_file(file), **(tensors or {})}
    if change is not None:
        change(header)
    if seal:
        header.pop("digest", None)
        try:
            header["digest"] = _digest(header, payload)
        except TypeError:
            header["digest"] = ""
    save_file(payload, file, metadata={"fishersketch": json.dumps(header)})


def test_a_rewritten_file_is_read_where_nothing_changed(file):
    before = TaskSignature.load(file)
    rewritten(file)
    assert TaskSignature.load(file) == before


def test_a_change_without_its_digest_is_noticed(file):
    rewritten(file, lambda header: header["factors"].update(joint=2.0), seal=False)
    refuse(file, "its digest differs from its content")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda h: h.update(format=2), "format 2: this release reads format 1"),
        (lambda h: h.update(format=[1]), r"format \[1\]"),
        (lambda h: h.pop("format"), "no entry 'format'"),
        (lambda h: h.pop("digest"), "no entry 'digest'"),
        (lambda h: h["spec"].pop("seed"), "spec has fields"),
        (lambda h: h["spec"].update(more=1), "spec has fields"),
        (lambda h: h.update(spec=None), "spec is no dictionary"),
        (lambda h: h.update(spec=[]), "spec is no dictionary"),
        (lambda h: h["spec"].update(num_features=10**9), "num_features=1000000000: more than 16777216"),
        (lambda h: h["spec"].update(num_features=34), "stream 'joint' does not fit the spec"),
        (lambda h: h["spec"].update(num_features=-33), "num_features=-33"),
        (lambda h: h["spec"].update(num_features=33.0), "num_features=33.0"),
        (lambda h: h["spec"].update(projection=["hadamard"]), "projection="),
        (lambda h: h["spec"].update(extra_streams=["unit_joint"]), "unit_joint"),
        (lambda h: h["spec"].update(extra_streams=3), ""),
        (lambda h: h.update(dtype="int8"), "stream 'joint' does not fit the spec"),
        (lambda h: h.update(dtype="int2"), "dtype 'int2' is unknown"),
        (lambda h: h.update(dtype=[]), r"dtype \[\] is unknown"),
        (lambda h: h.update(num_samples=[24, -1]), r"num_samples \[24, -1\] are no counts"),
        (lambda h: h.update(num_samples=[24, 1.5]), "are no counts"),
        (lambda h: h.update(num_samples=[True, 2]), "are no counts"),
        (lambda h: h.update(num_samples=[0, 0]), "are no counts"),
        (lambda h: h.update(num_samples=[24]), "unpack"),
        (lambda h: h.update(num_samples=[48, 0]), "split self terms of an empty half"),
        (lambda h: h.pop("self_terms"), "no entry 'self_terms'"),
        (lambda h: h["self_terms"].pop("plain"), "plain self terms are missing"),
        (lambda h: h.update(self_terms=["plain"]), ""),
        (lambda h: h["self_terms"].update(plain=[1.0] * 4), "argument"),
        (lambda h: h["self_terms"].update(plain=[1.0] * 6), "argument"),
        (lambda h: h["self_terms"].update(split=["1.0"] * 5), "'1.0' is no finite number"),
        (lambda h: h["self_terms"].update(split=[math.nan] * 5), "nan is no finite number"),
        (lambda h: h["self_terms"].update(split=[10**400] * 5), ""),
        (lambda h: h["factors"].pop("error"), "no entry 'error'"),
        (lambda h: h["factors"].update(error=math.inf), "inf is no finite number"),
        (lambda h: h["factors"].update(error=None), "None is no finite number"),
        (lambda h: h.update(factors=3), ""),
        (lambda h: h.update(provenance=["model"]), "provenance=.* must be a dictionary"),
        (lambda h: h["provenance"].update(loss=math.nan), r"provenance\['loss'\]: must be a JSON value"),
    ],
)
def test_hostile_headers(change, reason, file):
    rewritten(file, change, seal=reason != "no entry 'digest'")
    refuse(file, f"not a whole signature \\(.*{reason}")


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "{" * 3, "[]", "3", '"text"', "null", '{"format":1}', "1" * 10_000]
)
def test_headers_that_are_no_header(text, file):
    save_file(load_file(file), file, metadata={"fishersketch": text})
    refuse(file, "not a whole signature")


def test_nested_provenance_is_refused_and_not_a_crash(file):
    with_nest = (
        json.dumps({"format": 1}).rstrip("}") + ',"provenance":' + '{"a":' * 50_000 + "1" + "}" * 50_001
    )
    save_file(load_file(file), file, metadata={"fishersketch": with_nest})
    refuse(file, "not a whole signature")


def test_safetensors_of_something_else(file, tmp_path):
    save_file({"weight": torch.zeros(3)}, tmp_path / "model")
    refuse(tmp_path / "model", "no entry 'fishersketch'")
    save_file({"weight": torch.zeros(3)}, tmp_path / "model", metadata={"format": "pt"})
    refuse(tmp_path / "model", "no entry 'fishersketch'")


@pytest.mark.parametrize(
    ("tensor", "reason"),
    [
        (torch.full((33,), math.nan), "stream 'error' holds NaN or infinite values"),
        (torch.full((33,), -math.inf), "stream 'error' holds NaN or infinite values"),
        (torch.zeros(34), "stream 'error' does not fit the spec"),
        (torch.zeros(33, 1), "stream 'error' does not fit the spec"),
        (torch.zeros(0), "stream 'error' does not fit the spec"),
        (torch.zeros(33, dtype=torch.float64), "stream 'error' does not fit the spec"),
        (torch.zeros(33, dtype=torch.bfloat16), "stream 'error' does not fit the spec"),
        (torch.zeros(33, dtype=torch.int8), "stream 'error' does not fit the spec"),
    ],
)
def test_hostile_payloads(tensor, reason, file):
    if tensor.dtype == torch.bfloat16:
        rewritten(file, seal=False, tensors={"error": tensor})
    else:
        rewritten(file, tensors={"error": tensor})
    refuse(file, reason)


def test_random_damage_never_escapes_as_another_error(file):
    content = np.frombuffer(file.read_bytes(), dtype=np.uint8)
    generator = np.random.default_rng(0)
    for _ in range(400):
        damaged = content.copy()
        start, length = generator.integers(0, len(content)), generator.integers(1, 60)
        damaged[start : start + length] = generator.integers(0, 256, len(damaged[start : start + length]))
        if not np.array_equal(damaged, content):
            file.write_bytes(damaged.tobytes())
            refuse(file, "not a whole signature")
