"""One sketch from two real processes, and from files."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from fisher_tasks import grouped_task, relative_difference, sketch_of

from fishersketch import FisherSketch, FisherSketchError, SketchSpec, merge_ranks

TESTS = Path(__file__).parent
SPEC = SketchSpec(6, 10, 64)


def torchrun(folder: Path, case: str) -> str:
    line = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [*line, str(TESTS / "distributed_worker.py"), str(folder), case],
        cwd=TESTS,
        env=os.environ
        | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([str(TESTS.parent), str(TESTS)])},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("case", ["uneven shards", "one has all"])
def test_two_workers_make_the_sketch_of_one(tmp_path, case):
    torchrun(tmp_path, case)
    whole = sketch_of(SPEC, grouped_task(0))
    found = [FisherSketch.load(tmp_path / f"rank{rank}.sketch") for rank in (0, 1)]
    assert torch.equal(found[0].state()[0]["sums"], found[1].state()[0]["sums"])
    assert relative_difference(found[0], whole) < 1e-10
    assert found[0].num_samples == whole.num_samples and found[0].num_tokens == whole.num_tokens
    assert found[0].signature().num_samples == whole.signature().num_samples


def test_workers_that_differ_say_so_on_every_rank(tmp_path):
    said = torchrun(tmp_path, "other seeds")
    for rank in (0, 1):
        assert f"rank {rank} of 2: rank 1 against rank 0: sketches cannot be merged: seed" in said
    assert not list(tmp_path.iterdir())


def test_without_a_process_group_it_says_what_to_do():
    with pytest.raises(FisherSketchError, match="init_process_group first, as under torchrun"):
        merge_ranks(FisherSketch(SPEC))


def test_sketches_merge_from_files(tmp_path):
    task = grouped_task(0)
    for name, rows in (("first", task[2] < 5), ("second", task[2] >= 5)):
        sketch_of(SPEC, tuple(part[rows] for part in task), provenance={"model": "m"}).save(tmp_path / name)
    merged = FisherSketch.load(tmp_path / "first")
    merged.merge(FisherSketch.load(tmp_path / "second"))
    assert relative_difference(merged, sketch_of(SPEC, task)) < 1e-10
    merged.save(tmp_path / "first")
    again = FisherSketch.load(tmp_path / "first")
    assert torch.equal(again.state()[0]["sums"], merged.state()[0]["sums"])
    assert again.provenance == {"model": "m"}


def test_damaged_files_are_refused_by_name(tmp_path):
    sketch_of(SPEC, grouped_task(0)).save(tmp_path / "whole")
    data = (tmp_path / "whole").read_bytes()
    header = data[8 : 8 + int.from_bytes(data[:8], "little")]
    cases = {
        "cut": data[:-100],
        "empty": b"",
        "text": b"no sketch at all, but a line of text",
        "older": data.replace(rb"\"recipe\":1", rb"\"recipe\":0"),
    }
    assert rb"\"recipe\":1" in header
    for name, content in cases.items():
        (tmp_path / name).write_bytes(content)
        says = "this release reads" if name == "older" else "not the whole state of a sketch"
        with pytest.raises(FisherSketchError, match=f"{name}: .*{says}"):
            FisherSketch.load(tmp_path / name)
    sketch_of(SPEC, grouped_task(0)).signature().save(tmp_path / "signature")
    with pytest.raises(FisherSketchError, match="signature: not the whole state of a sketch"):
        FisherSketch.load(tmp_path / "signature")
    with pytest.raises(FisherSketchError, match="nothing: cannot read the sketch"):
        FisherSketch.load(tmp_path / "nothing")
    with pytest.raises(FisherSketchError, match="cannot write the sketch"):
        FisherSketch.load(tmp_path / "whole").save(tmp_path / "no folder" / "file")
