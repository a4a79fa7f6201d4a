"""The run folder, the artefact cache between real processes, and what is left behind by a kill."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
import yaml

from experiments.artefacts import ArtefactCache
from experiments.errors import UserError
from experiments.failures import Interrupted, Reported
from experiments.files import canonical, plain, write_json
from experiments.store import Store, config_hash
from tests.chaos import prepare, start

ROOT = Path(__file__).resolve().parent.parent
CONFIG = {
    "job": "none",
    "seed": 3,
    "device": "auto",
    "smoke": True,
    "store": "here",
    "logger": {"mode": "disabled"},
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FISHERSKETCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "runs" / "one"


def manifest(folder: Path) -> dict:
    return json.loads((folder / "manifest.json").read_text())


def python(code: str, *arguments: object, **options) -> subprocess.Popen:
    line = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(
        line, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )


def wait_for(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def test_a_run_is_described_while_it_goes_on_and_after(folder):
    with Store(folder, CONFIG, "python run.py seed=3") as store:
        during = manifest(folder)
        with store.timed("sketch"):
            time.sleep(0.01)
        with store.timed("sketch"):
            time.sleep(0.01)
        store.record(device="cpu")
        store.log.info("half way")
        store.write_metrics({"seconds": store.seconds})
    after = manifest(folder)
    assert (during["status"], during["finished"], during["wall_seconds"]) == ("running", None, None)
    assert (after["status"], after["error"]) == ("finished", None)
    assert after["started"] == during["started"] <= after["finished"]
    assert after["wall_seconds"] >= store.seconds["sketch"] >= 0.02
    assert after["peak_bytes"] > 2**20
    assert {
        "job": "none",
        "command": "python run.py seed=3",
        "device": "cpu",
        "seed": 3,
        "smoke": True,
    }.items() <= (after.items())
    assert after["config_hash"] == config_hash(CONFIG)
    assert after["versions"]["torch"].startswith("2.")
    assert yaml.safe_load((folder / "config.yaml").read_text()) == CONFIG
    assert "half way" in (folder / "run.log").read_text()


def test_the_commit_is_known_in_a_checkout_only(tmp_path):
    from experiments.provenance import commit

    assert commit(tmp_path) == (None, None)
    git = ["git", "-C", str(tmp_path), "-c", "user.name=n", "-c", "user.email=e@x"]
    (tmp_path / "a").write_text("1")
    for line in (["init", "-q"], ["add", "a"], ["commit", "-q", "-m", "a"]):
        subprocess.run([*git, *line], check=True)
    head = subprocess.run(
        [*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True
    ).stdout.strip()
    assert commit(tmp_path) == (head, False)
    (tmp_path / "a").write_text("2")
    assert commit(tmp_path) == (head, True)
    (tmp_path / "inside").mkdir()
    assert commit(tmp_path / "inside") == (None, None)


def test_a_failure_is_written_down_with_its_traceback_in_the_log(folder, capsys):
    with pytest.raises(Reported), Store(folder, CONFIG, "c") as store:
        store.write_metrics({})
        raise KeyError("two\nlines")
    log = (folder / "run.log").read_text()
    assert manifest(folder)["status"] == "failed"
    assert manifest(folder)["error"] == f"KeyError: 'two\\nlines' (traceback in {folder / 'run.log'})"
    assert "Traceback" in log and "test_store.py" in log
    assert capsys.readouterr().err == f"error: {manifest(folder)['error']}\n"


def test_a_mistake_of_the_user_has_no_traceback(folder, capsys):
    with pytest.raises(Reported), Store(folder, CONFIG, "c"):
        raise UserError("seed=3: is odd")
    assert (manifest(folder)["status"], manifest(folder)["error"]) == ("failed", "seed=3: is odd")
    assert "Traceback" not in (folder / "run.log").read_text()
    assert capsys.readouterr().err == "error: seed=3: is odd\n"


def test_what_fails_after_the_job_leaves_it_finished(folder):
    with pytest.raises(Reported), Store(folder, CONFIG, "c") as store:
        store.finish()
        raise UserError("figures: no")
    assert (manifest(folder)["status"], manifest(folder)["error"]) == ("finished", "figures: no")


def test_an_interrupted_run_says_so(folder):
    with pytest.raises(KeyboardInterrupt), Store(folder, CONFIG, "c"):
        raise Interrupted(signal.SIGTERM)
    assert (manifest(folder)["status"], manifest(folder)["error"]) == ("interrupted", "Interrupted: SIGTERM")


def test_a_folder_holds_one_run(folder):
    with Store(folder, CONFIG, "c"):
        pass
    before = (folder / "manifest.json").read_bytes()
    with (
        pytest.raises(UserError, match="one: holds a run already; choose another folder"),
        Store(folder, CONFIG, "c"),
    ):
        pass
    assert (folder / "manifest.json").read_bytes() == before


def test_metrics_are_plain_sorted_and_written_once(folder):
    metrics = {
        "z": float("nan"),
        "a": np.float32(0.5),
        "n": np.int64(3),
        "ok": np.bool_(True),
        "rows": np.array([[1.0, np.inf], [2.0, 3.0]]),
        "inner": {"b": (1, 2), "a": Path("x")},
    }
    with Store(folder, CONFIG, "c") as store:
        store.write_metrics(metrics)
        with pytest.raises(RuntimeError, match="writes its metrics once"):
            store.write_metrics(metrics)
    text = (folder / "metrics.json").read_text()
    assert json.loads(text) == {
        "a": 0.5,
        "inner": {"a": "x", "b": [1, 2]},
        "n": 3,
        "ok": True,
        "rows": [[1.0, None], [2.0, 3.0]],
        "z": None,
    }
    assert list(json.loads(text)) == sorted(metrics)
    write_json(folder / "again.json", dict(reversed(metrics.items())))
    assert (folder / "again.json").read_text() == text


def test_only_plain_values_go_into_json():
    with pytest.raises(TypeError, match="set does not go into JSON"):
        plain({"a": {1, 2}})
    assert canonical({"b": 1, "a": (1.5, None)}) == canonical({"a": [np.float64(1.5), None], "b": 1})


def test_arrays_come_back_without_pickles(folder):
    with Store(folder, CONFIG, "c") as store:
        store.write_arrays("alignments", names=["spanish", "español"], joint=np.eye(2))
        with pytest.raises(TypeError, match=r"arrays/bad\.npz: x holds Python objects"):
            store.write_arrays("bad", x=[None, {}])
    with np.load(folder / "arrays" / "alignments.npz", allow_pickle=False) as arrays:
        assert arrays["names"].tolist() == ["spanish", "español"]
        np.testing.assert_array_equal(arrays["joint"], np.eye(2))
    assert sorted(path.name for path in (folder / "arrays").iterdir()) == ["alignments.npz"]


def test_warnings_and_other_libraries_go_to_the_log_only(folder, capsys):
    code = """
import logging, sys, warnings
from pathlib import Path
from experiments.store import Store
with Store(Path(sys.argv[1]), {}, "c"):
    warnings.warn("of a library")
    logging.getLogger("other").warning("from elsewhere")
"""
    process = python(code, folder)
    assert process.communicate()[1] == ""
    log = (folder / "run.log").read_text()
    assert "of a library" in log and "from elsewhere" in log


def test_an_artefact_is_made_once_and_its_key_lies_beside_it(tmp_path):
    cache = ArtefactCache(tmp_path)
    calls = []

    def make(path: Path) -> None:
        calls.append(path)
        path.write_text("made")

    first = cache.get("rows", {"seed": 1, "domain": "es"}, make, ".txt")
    again = cache.get("rows", {"domain": "es", "seed": np.int64(1)}, make, ".txt")
    assert first == again
    assert len(calls) == 1
    assert calls[0].suffix == ".txt" and calls[0] != first
    assert first.read_text() == "made"
    key = json.loads(first.with_name(f"{first.stem}.key.json").read_text())
    assert key == {"seed": 1, "domain": "es"}
    others = [
        cache.get("rows", {"seed": 2, "domain": "es"}, make, ".txt"),
        cache.get("rows", {"seed": 1, "domain": "es", "more": None}, make, ".txt"),
        cache.get("signatures", {"seed": 1, "domain": "es"}, make, ".txt"),
    ]
    assert len({first, *others}) == len(calls) == 4


def test_an_artefact_may_be_a_folder(tmp_path):
    def make(path: Path) -> None:
        path.mkdir()
        (path / "a.txt").write_text("a")

    found = ArtefactCache(tmp_path).get("models", {"n": 1}, make, "")
    assert [path.name for path in found.iterdir()] == ["a.txt"]


def test_a_failed_make_leaves_nothing_and_is_tried_again(tmp_path):
    cache = ArtefactCache(tmp_path)

    def fail(path: Path) -> None:
        path.write_text("half")
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        cache.get("rows", {"n": 1}, fail, ".txt")
    assert [path.suffix for path in (tmp_path / "rows").iterdir()] == [".lock"]
    assert cache.get("rows", {"n": 1}, lambda path: path.write_text("whole"), ".txt").read_text() == "whole"


MAKE_SLOWLY = """
import sys, time
from pathlib import Path
from experiments.artefacts import ArtefactCache
root, seconds, mark = Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
def make(path):
    path.write_text("half of " + mark)
    (root / ("started-" + mark)).touch()
    time.sleep(seconds)
    path.write_text("whole of " + mark)
(root / ("asked-" + mark)).touch()
print(ArtefactCache(root / "cache").get("rows", {"n": 1}, make, ".txt").read_text())
"""


def test_two_processes_make_an_artefact_once(tmp_path):
    processes = [python(MAKE_SLOWLY, tmp_path, 1.0, mark) for mark in "ab"]
    said = {process.communicate(timeout=120)[0].strip() for process in processes}
    assert len(said) == 1
    assert len(list(tmp_path.glob("started-*"))) == 1
    assert said.pop() == f"whole of {next(tmp_path.glob('started-*')).name[-1]}"


def test_what_a_killed_process_left_is_not_trusted(tmp_path):
    victim = python(MAKE_SLOWLY, tmp_path, 600, "a")
    wait_for((tmp_path / "started-a").exists)
    waiting = python(MAKE_SLOWLY, tmp_path, 0, "b")
    wait_for((tmp_path / "asked-b").exists)
    time.sleep(0.3)
    left = list((tmp_path / "cache" / "rows").glob(".*.txt"))
    assert [path.read_text() for path in left] == ["half of a"]
    assert waiting.poll() is None
    victim.send_signal(signal.SIGKILL)
    victim.communicate()
    out, error = waiting.communicate(timeout=120)
    assert (out.strip(), error) == ("whole of b", "")
    names = sorted(path.suffix for path in (tmp_path / "cache" / "rows").iterdir())
    assert names == [".json", ".lock", ".txt"]


def test_an_artefact_without_its_key_or_with_another_is_made_again(tmp_path):
    cache = ArtefactCache(tmp_path)
    path = cache.get("rows", {"n": 1}, lambda path: path.write_text("first"), ".txt")
    path.with_name(f"{path.stem}.key.json").unlink()
    assert cache.get("rows", {"n": 1}, lambda path: path.write_text("second"), ".txt").read_text() == "second"
    path.unlink()
    assert cache.get("rows", {"n": 1}, lambda path: path.write_text("third"), ".txt").read_text() == "third"


READ_ONLY = """
import os, sys
from pathlib import Path
from experiments.artefacts import ArtefactCache
from experiments.errors import UserError
if os.getuid() == 0:
    os.setuid(65534)
cache = ArtefactCache(Path(sys.argv[1]))
print(cache.get("rows", {"n": 1}, None, ".txt").read_text())
try:
    cache.get("rows", {"n": 2}, lambda path: path.write_text("x"), ".txt")
except UserError as error:
    print(error)
"""


def test_a_read_only_cache_serves_what_it_has():
    with tempfile.TemporaryDirectory() as name:
        root = Path(name) / "cache"
        ArtefactCache(root).get("rows", {"n": 1}, lambda path: path.write_text("there"), ".txt")
        for path in (Path(name), root, root / "rows"):
            path.chmod(0o555)
        process = python(READ_ONLY, root)
        out, error = process.communicate(timeout=120)
        for path in (Path(name), root, root / "rows"):
            path.chmod(0o755)
    assert error == ""
    there, line = out.splitlines()
    assert there == "there"
    assert line.startswith("rows ") and "is not in the cache yet and cannot be written to it: " in line
    assert line.endswith("choose a folder that you can write to, or set FISHERSKETCH_CACHE to another folder")


def test_a_full_disk_is_one_line(tmp_path):
    def fill(path: Path) -> None:
        with open("/dev/full", "w") as full:
            full.write("x")

    with pytest.raises(
        UserError, match=r"^rows \w+ is not in the cache yet .*No space left on device; free some space"
    ):
        ArtefactCache(tmp_path).get("rows", {"n": 1}, fill, ".txt")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="mounts a small disk")
def test_signatures_that_fill_a_disk_are_one_line(tmp_path):
    prepare(tmp_path)
    disk = tmp_path / "full-cache"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)], check=True)
    try:
        run = start(tmp_path, "full")
        _, errors = run.communicate()
    finally:
        subprocess.run(["umount", str(disk)], check=True)
    assert run.returncode == 1
    last = errors.decode().splitlines()[-1]
    assert "is not in the cache yet" in last and "No space left on device; free some space" in last


def test_an_error_outside_the_cache_is_not_blamed_on_it(tmp_path):
    source = tmp_path / "a-file"
    source.touch()

    def make(path: Path) -> None:
        (source / "below").write_text("x")

    with pytest.raises(NotADirectoryError):
        ArtefactCache(tmp_path / "cache").get("rows", {"n": 1}, make, ".txt")


GUARDED = """
import sys, time
from pathlib import Path
from experiments.command_line import guarded, one_job
from experiments.store import Store
with guarded(), one_job(False), Store(Path(sys.argv[1]), {}, "c") as store:
    store.cache.get("rows", {"n": 1}, lambda path: path.write_text("kept"), ".txt")
    (Path(sys.argv[1]) / "ready").touch()
    time.sleep(600)
"""


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_run_in_one_line(folder, signum, code):
    process = python(GUARDED, folder)
    wait_for((folder / "ready").exists)
    process.send_signal(signum)
    assert (
        process.communicate(timeout=60)[1]
        == "interrupted; the same command goes on from what is in the cache\n"
    )
    assert process.returncode == code
    assert manifest(folder)["status"] == "interrupted"
    cache = ArtefactCache(Path(os.environ["FISHERSKETCH_CACHE"]) / "artefacts")
    assert cache.get("rows", {"n": 1}, lambda path: path.write_text("again"), ".txt").read_text() == "kept"


def test_a_limit_on_file_sizes_is_one_line(folder):
    code = """
import resource, sys
from pathlib import Path
import numpy as np
from experiments.command_line import guarded, one_job
from experiments.store import Store
with guarded(), one_job(False), Store(Path(sys.argv[1]), {}, "c") as store:
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, resource.RLIM_INFINITY))
    store.write_arrays("big", x=np.random.default_rng(0).random(2**16))
"""
    process = python(code, folder)
    assert process.communicate()[1] == (
        f"error: {folder}/arrays/big.npz: File too large; raise the limit on the size of files\n"
    )
    assert process.returncode == 1
    assert manifest(folder)["status"] == "failed"
    assert list((folder / "arrays").iterdir()) == []
