"""`python run.py` from the outside: whole runs of a tiny model on tiny texts, and all ways that they end."""

import json
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from saved_models import WORDS, save_tiny_llama
from tiny_run import DOMAINS, ROOT, environment


@dataclass
class Workshop:
    """A folder with a model, texts, their configs, runs and a cache."""

    folder: Path

    def start(self, *arguments: str) -> subprocess.Popen:
        env = environment(self.folder / "cache")
        line = [sys.executable, "run.py", "--config-dir", str(self.folder / "conf"), *arguments]
        pipe = subprocess.PIPE
        return subprocess.Popen(line, cwd=ROOT, env=env, stdout=pipe, stderr=pipe, text=True)

    def run(self, *arguments: str) -> tuple[int, str, str]:
        process = self.start(*arguments)
        out, error = process.communicate(timeout=300)
        return process.returncode, out, error

    def runs(self, store: str) -> list[Path]:
        return sorted(path.parent for path in (self.folder / store).rglob("manifest.json"))

    def artefacts(self) -> dict[Path, int]:
        """The artefacts, with the time that tells a new one from an old one."""
        files = (self.folder / "cache" / "artefacts").rglob("*.*")
        return {path: path.stat().st_mtime_ns for path in files if path.suffix != ".lock"}


@pytest.fixture(scope="module")
def workshop(tmp_path_factory):
    folder = tmp_path_factory.mktemp("workshop")
    save_tiny_llama(folder / "model")
    entries = ["entries:"]
    for number, name in enumerate(("low", "high", "all")):
        words = random.Random(number)
        first, last = {"low": (0, 80), "high": (120, WORDS - 1), "all": (0, WORDS - 1)}[name]
        text = " ".join(f"w{words.randint(first, last)}" for _ in range(600))
        (folder / f"{name}.txt").write_text(text)
        entries.append(f"  {name}: {{kind: local_text, group: words, path: {folder / name}.txt}}")
    (folder / "conf" / "domains").mkdir(parents=True)
    (folder / "conf" / "domains" / "words.yaml").write_text(DOMAINS + "\n".join(entries) + "\n")
    (folder / "conf" / "model").mkdir()
    (folder / "conf" / "model" / "tiny.yaml").write_text(
        f"defaults: [/schema/model/local_causal_lm@_here_, _self_]\nname: tiny\npath: {folder / 'model'}\n"
    )
    return Workshop(folder)


TINY = ("model=tiny", "domains=words", "smoke=true", "estimator.num_features=64", "estimator.exact_windows=2")


def manifest(folder: Path) -> dict:
    return json.loads((folder / "manifest.json").read_text())


def metrics(folder: Path) -> dict:
    found = json.loads((folder / "metrics.json").read_text())
    del found["seconds"]
    return found


@pytest.fixture(scope="module")
def pair(workshop):
    """Two runs of one config, started in the same second on one cache; one logs to wandb."""
    store = f"store={workshop.folder / 'pair'}"
    processes = [workshop.start(*TINY, store, *more) for more in ((), ("logger=wandb",))]
    for process in processes:
        out, error = process.communicate(timeout=300)
        assert process.returncode == 0, error
        assert out.strip()
    return workshop.runs("pair")


def test_a_run_leaves_a_folder_that_tells_all(pair):
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True
    ).stdout.strip()
    for folder in pair:
        about = manifest(folder)
        assert (about["status"], about["error"], about["smoke"], about["seed"]) == ("finished", None, True, 0)
        assert about["git_commit"] == (head or None)
        assert about["device"] in ("cpu", "cuda:0")
        assert about["wall_seconds"] > 0 and about["peak_bytes"] > 2**26
        assert "domains=words" in about["command"]
        names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
        assert {"config.yaml", "metrics.json", "run.log", "arrays/alignments.npz"} <= names
        assert any(name.startswith("tables/") and name.endswith(".csv") for name in names)
        assert any(name.startswith("figures/") and name.endswith(".png") for name in names)
        assert metrics(folder)["domains"] == ["low", "high", "all"]


def test_runs_started_together_have_their_own_folders_and_agree(pair):
    assert len(pair) == 2
    assert metrics(pair[0]) == metrics(pair[1])
    assert manifest(pair[0])["config_hash"] == manifest(pair[1])["config_hash"]
    assert sorted((folder / "wandb").is_dir() for folder in pair) == [False, True]


def test_a_failed_job_of_a_sweep_does_not_stop_the_others(workshop, pair):
    store = workshop.folder / "sweep"
    code, _, error = workshop.run(
        "-m", *TINY, f"store={store}", "estimator.num_features=0,64", "transfer=none"
    )
    assert code == 1
    assert "error: estimator.num_features=0: must be at least 1\n" in error
    assert "Traceback" not in error
    failed, finished = workshop.runs("sweep")
    assert (failed.name, finished.name, failed.parent) == ("0", "1", finished.parent)
    assert failed.parent.relative_to(store).parts[0] == "multirun"
    assert (manifest(failed)["status"], manifest(finished)["status"]) == ("failed", "finished")
    assert manifest(failed)["error"] == "estimator.num_features=0: must be at least 1"
    assert "-m" not in manifest(finished)["command"].split()
    assert "estimator.num_features=64" in manifest(finished)["command"]
    table = [sys.executable, "-m", "analysis", "sweep", str(failed.parent)]
    subprocess.run(table, cwd=ROOT, check=True, capture_output=True)
    rows = (failed.parent / "sweep.csv").read_text().splitlines()
    assert len(rows) == 3


def test_an_interrupted_run_says_so_and_the_next_one_goes_on_from_the_cache(workshop, pair):
    arguments = (*TINY, f"store={workshop.folder / 'stopped'}")
    artefacts = workshop.artefacts()
    process = workshop.start(*arguments)
    end = time.monotonic() + 120
    while not workshop.runs("stopped"):
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    _, error = process.communicate(timeout=120)
    assert process.returncode == 143
    assert error.splitlines()[-1] == "interrupted; the same command goes on from what is in the cache"
    assert "Traceback" not in error
    assert manifest(workshop.runs("stopped")[0])["status"] == "interrupted"
    code, _, error = workshop.run(*arguments)
    assert code == 0, error
    assert artefacts and workshop.artefacts() == artefacts
    assert metrics(workshop.runs("stopped")[1]) == metrics(pair[0])


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("seed=abc",), "error: seed=abc: must be an integer\n"),
        (("device=gpu", "store={}/x"), "error: device=gpu: must be auto, cpu, cuda or cuda:N\n"),
        (("store={}/model/config.json",), "error: {}/model/config.json/"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_1(workshop, arguments, line):
    code, out, error = workshop.run(*(argument.replace("{}", str(workshop.folder)) for argument in arguments))
    assert (code, out) == (1, "")
    assert error.startswith(line.replace("{}", str(workshop.folder)))
    assert error.count("\n") == 1


def test_help_names_the_choices_and_the_settings(workshop):
    code, out, error = workshop.run("--help")
    assert (code, error) == (0, "")
    assert "estimator.num_features (default 4096, min 1)" in out
    assert "logger: disabled, wandb" in out


def test_the_config_can_be_looked_at_without_a_run(workshop):
    code, out, error = workshop.run("--cfg", "job", "--resolve", *TINY, f"store={workshop.folder / 'none'}")
    assert (code, error) == (0, "")
    assert "num_features: 64" in out and f"path: {workshop.folder / 'low'}.txt" in out
    assert not (workshop.folder / "none").exists()
