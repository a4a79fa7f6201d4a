"""Signature libraries: a folder of files, added once, compared fast, refused where they do not fit."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import fishersketch as fs
from fishersketch.all_pairs import align_pairs
from fishersketch.command_line import main
from fishersketch.library import SignatureLibrary, read_files
from fishersketch.ranking import align_to, stderr_of_difference

ROOT = Path(__file__).resolve().parent.parent
ORIGIN = {"model": "m1", "tokenizer": "t1", "label_mode": "data"}


def signature(task: int, *, grouped: bool = True, dtype: str = "float32", origin=ORIGIN, **spec):
    """A task whose spread along each axis is drawn for its number."""
    recipe = fs.SketchSpec(8, 12, **{"num_features": 256} | spec)
    draw = torch.Generator().manual_seed(task)
    a = torch.randn(64, 8, generator=draw) * (1 + 3 * torch.rand(8, generator=draw))
    e = torch.randn(64, 12, generator=draw) * (1 + 3 * torch.rand(12, generator=draw))
    sketch = fs.FisherSketch(recipe, origin)
    sketch.update(a, e, group=torch.arange(64) // 4 if grouped else None)
    return sketch.signature(dtype)


def library(folder: Path, tasks=range(4)) -> SignatureLibrary:
    found = SignatureLibrary(folder)
    found.add((f"task {task}", signature(task)) for task in tasks)
    return found


@pytest.mark.parametrize("self_terms", ["split", "plain"])
@pytest.mark.parametrize("dtype", ["float32", "int8", "int4"])
def test_one_target_is_aligned_as_in_the_whole_table(self_terms, dtype):
    tasks = [signature(seed, dtype=dtype) for seed in range(5)]
    table, column = fs.align(tasks, self_terms), align_to(tasks[0], tasks[1:], self_terms)
    for name in ("joint", "activation", "error", "coupling", "stderr_sketch"):
        torch.testing.assert_close(getattr(column, name), getattr(table, name)[1:, 0])
    assert column.order == sorted(range(4), key=lambda i: -table.joint[i + 1, 0])


def test_the_error_of_a_difference_is_what_other_projections_show():
    values, stated = [], []
    for seed in range(60):
        a, b, c = (signature(task, seed=seed) for task in range(3))
        joint = align_to(a, [b, c]).joint
        values.append(float(joint[0] - joint[1]))
        stated.append(stderr_of_difference(a, b, c))
    assert np.std(values) == pytest.approx(np.mean(stated), rel=0.35)


@pytest.mark.parametrize("self_terms", ["split", "plain"])
def test_all_pairs_are_aligned_as_one_by_one(self_terms, monkeypatch):
    monkeypatch.setattr("fishersketch.all_pairs._BLOCK", 2)
    tasks = [signature(seed) for seed in range(5)]
    pairs = align_pairs(((str(i), task) for i, task in enumerate(tasks)), 5, self_terms)
    table = fs.align(tasks, self_terms)
    for name in ("joint", "activation", "error", "coupling", "stderr_sketch"):
        torch.testing.assert_close(
            getattr(pairs, name).double(), getattr(table, name), rtol=1e-4, atol=1e-4, equal_nan=True
        )


def test_the_fast_table_is_the_cosine_of_the_features():
    tasks = [signature(task) for task in range(4)]
    pairs = align_pairs(((str(i), task) for i, task in enumerate(tasks)), 4, "plain", controlled=False)
    joint = torch.stack([task.stream("joint") for task in tasks])
    unit = joint / joint.norm(dim=1, keepdim=True)
    torch.testing.assert_close(pairs.joint.double(), unit @ unit.T, rtol=1e-5, atol=1e-5)
    assert pairs.stderr_sketch.isnan().sum() == 12


def test_a_task_without_a_norm_is_undefined_and_last():
    nothing = fs.FisherSketch(fs.SketchSpec(8, 12, num_features=256), ORIGIN)
    nothing.update(torch.zeros(4, 8), torch.zeros(4, 12), group=torch.arange(4))
    tasks = [signature(0), nothing.signature(), signature(1)]
    assert align_to(tasks[0], tasks[1:]).order == [1, 0]
    pairs = align_pairs(((str(i), task) for i, task in enumerate(tasks)), 3)
    assert pairs.joint[1].isnan().all() and pairs.joint[0, 2].isfinite() and pairs.joint[0, 0] == 1


def test_adding_again_changes_nothing_whatever_the_name(tmp_path):
    found = library(tmp_path / "lib")
    before = {path: path.stat().st_mtime_ns for path in found.folder.iterdir()}
    assert found.add([("other name", signature(2))]) == {"other name": "task 2"}
    assert found.add(read_files([found.folder])) == {f"task {seed}": f"task {seed}" for seed in range(4)}
    assert {path: path.stat().st_mtime_ns for path in found.folder.iterdir()} == before
    assert found.names() == [f"task {seed}" for seed in range(4)]
    assert found.load("task 1") == signature(1)


def test_a_name_stands_for_one_signature(tmp_path):
    found = library(tmp_path)
    with pytest.raises(fs.FisherSketchError, match=r"^task 1: .* has another signature of that name; remove"):
        found.add([("task 1", signature(9))])
    assert found.load("task 1") == signature(1)
    assert len(list(tmp_path.iterdir())) == 4


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "a\0b", "C:x", "n" * 300])
def test_a_name_stays_in_the_folder(tmp_path, name):
    with pytest.raises(fs.FisherSketchError, match=r"^name '.*: must be the name of a file"):
        library(tmp_path / "lib").add([(name, signature(9))])
    with pytest.raises(fs.FisherSketchError, match=r"^name '"):
        SignatureLibrary(tmp_path / "lib").load(name)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"origin": ORIGIN | {"model": "m2"}}, 'model: "m2" against "m1"'),
        ({"origin": ORIGIN | {"tokenizer": "t2"}}, 'tokenizer: "t2" against "t1"'),
        ({"origin": ORIGIN | {"label_mode": "model"}}, 'label_mode: "model" against "data"'),
        ({"num_features": 128}, "num_features: 128 against 256"),
        ({"seed": 1}, "seed: 1 against 0"),
    ],
)
def test_a_signature_of_another_kind_is_refused_by_name(tmp_path, change, says):
    found = library(tmp_path)
    other = signature(9, **change)
    with pytest.raises(fs.FisherSketchError, match=rf"^new: cannot be added to .* with task 0: {says}$"):
        found.add([("new", other)])
    with pytest.raises(
        fs.FisherSketchError, match=r"task 0\.safetensors: is not comparable with the target: "
    ):
        found.nearest(other)
    other.save(tmp_path / "dropped in.safetensors")
    with pytest.raises(fs.FisherSketchError, match=r"task 0\.safetensors: .* with dropped in: "):
        list(found.items())


def test_the_first_signatures_that_are_added_have_to_compare_too(tmp_path):
    pair = [("a", signature(0)), ("b", signature(1, seed=3))]
    with pytest.raises(fs.FisherSketchError, match="^b: .* is not comparable with a: seed: 3 against 0"):
        SignatureLibrary(tmp_path / "new").add(pair)
    assert SignatureLibrary(tmp_path / "new").names() == ["a"]


def test_a_damaged_file_is_named(tmp_path):
    found = library(tmp_path)
    path = tmp_path / "task 2.safetensors"
    path.write_bytes(path.read_bytes()[:-40])
    for use in (
        lambda: found.nearest(signature(0)),
        lambda: list(found.items()),
        lambda: found.load("task 2"),
    ):
        with pytest.raises(fs.FisherSketchError, match=r"task 2\.safetensors: not a whole signature"):
            use()


def test_the_nearest_are_those_of_the_whole_table_less_the_target(tmp_path, monkeypatch):
    monkeypatch.setattr("fishersketch.library._BATCH", 3)
    found = library(tmp_path, range(10))
    tasks = [signature(seed) for seed in range(10)]
    joint = fs.align(tasks).joint[0]
    expected = sorted(range(1, 10), key=lambda i: -joint[i])[:4]
    best = found.nearest(tasks[0], 4)
    assert [one.name for one in best] == [f"task {i}" for i in expected]
    assert best[0].joint == pytest.approx(float(joint[expected[0]])) and best[0].num_samples == 64
    with pytest.raises(fs.FisherSketchError, match="^count=0: must be at least 1"):
        found.nearest(tasks[0], 0)


def test_signatures_without_halves_compare_plainly(tmp_path):
    found = SignatureLibrary(tmp_path)
    found.add((f"task {seed}", signature(seed, grouped=False)) for seed in range(3))
    assert len(found.nearest(signature(0, grouped=False), self_terms="plain")) == 2
    with pytest.raises(fs.FisherSketchError, match=r"task 0\.safetensors: .*ask for self_terms='plain'"):
        found.nearest(signature(5))
    with pytest.raises(fs.FisherSketchError, match="^task 0: was made without two halves"):
        align_pairs(found.items(), 3)


def test_thousands_are_compared(tmp_path):
    """2,000 files take the way that 10,000 do: read one by one, then products of matrices."""
    found = SignatureLibrary(tmp_path)
    some = [signature(seed, num_features=64) for seed in range(50)]
    for number, one in enumerate(some):
        one.save(tmp_path / f"{number}.safetensors")
        content = (tmp_path / f"{number}.safetensors").read_bytes()
        for copy in range(number + 50, 2000, 50):
            (tmp_path / f"{copy}.safetensors").write_bytes(content)
    pairs = align_pairs(found.items(), 2000, controlled=False)
    best = found.nearest(some[7], 3)
    assert pairs.joint.shape == (2000, 2000)
    assert len({one.joint for one in best}) == 1 and all(int(one.name) % 50 != 7 for one in best)


def command(*arguments: object) -> subprocess.CompletedProcess:
    line = [sys.executable, "-m", "fishersketch", "library", *map(str, arguments)]
    return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=120)


def test_the_command_line_from_the_outside(tmp_path):
    run = library(tmp_path / "run" / "signatures")
    done = command("add", tmp_path / "lib", run.folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"added 4, 4 in {tmp_path / 'lib'}\n"
    missing = command("remove", tmp_path / "lib", "task 9")
    assert (missing.returncode, missing.stdout) == (1, "")
    assert missing.stderr == f"error: {tmp_path / 'lib'}: has no signature 'task 9'; nothing was removed\n"


def test_the_commands_say_what_they_did(tmp_path, capsys):
    lib, new = str(tmp_path / "lib"), str(tmp_path / "new.safetensors")
    library(tmp_path / "lib")
    signature(2).save(new)
    assert main(["library", "add", lib, new]) == 0
    assert capsys.readouterr().out == f"new: there already as task 2\nadded 0, 4 in {lib}\n"
    signature(8).save(new)
    assert main(["library", "add", lib, new, "--name", "eight"]) == 0
    assert main(["library", "list", lib]) == 0
    shown = capsys.readouterr().out
    assert "made from: label_mode data, model m1, tokenizer t1" in shown or "model m1" in shown
    assert [line.split("  ")[0] for line in shown.splitlines()[-5:]] == [
        "eight",
        *(f"task {seed}" for seed in range(4)),
    ]
    assert main(["library", "nearest", lib, "eight", "--count", "2"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    assert main(["library", "compare", lib, "--out", str(tmp_path / "all.npz")]) == 0
    assert capsys.readouterr().out.startswith("joint ")
    with np.load(tmp_path / "all.npz") as stored:
        assert stored["names"][0] == "eight" and stored["coupling"].shape == (5, 5)
    assert main(["library", "remove", lib, "eight", "task 0"]) == 0
    assert SignatureLibrary(lib).names() == ["task 1", "task 2", "task 3"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("list", "{}/none"), "{}/none: there is no such library; add a signature to make it"),
        (("add", "{}/lib", "{}/none"), "{}/none: there is no such signature file"),
        (("add", "{}/lib", "{}/empty"), "{}/empty: the folder holds no *.safetensors"),
        (("add", "{}/lib", "{}/lib", "--name", "x"), "--name x: goes with one file only"),
        (("nearest", "{}/lib", "none"), "none: neither a file nor the name of one in {}/lib"),
        (("compare", "{}/one"), "{}/one: holds 1 signatures; comparing takes two"),
        (("nearest", "{}/one", "task 0"), "{}/one: holds no signature but the target's; add some"),
        (("compare", "{}/lib", "--out", "{}/no/x.npz"), "--out {}/no/x.npz: cannot be written (No such file"),
    ],
)
def test_a_mistake_is_one_line(tmp_path, capsys, arguments, says):
    library(tmp_path / "lib")
    library(tmp_path / "one", [0])
    (tmp_path / "empty").mkdir()
    assert main(["library", *(argument.replace("{}", str(tmp_path)) for argument in arguments)]) == 1
    out, error = capsys.readouterr()
    assert out == "" and error.startswith(f"error: {says.replace('{}', str(tmp_path))}")
    assert error.count("\n") == 1
