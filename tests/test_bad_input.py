"""Every mistake of `bad_inputs` through the part that meets it: one line that names it, and no traceback."""

import json
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml
from bad_inputs import MODELS, PATHS, PROCESSES, RUNS, SETTINGS, TEXTS, another, filled
from hydra import compose, initialize_config_dir
from saved_models import WORDS, save_tiny_llama, word_tokenizer

from experiments.config import CONF, Config, discover, load
from experiments.devices import pick_device
from experiments.discovery import job
from experiments.domains.domain_set import DomainSetConfig
from experiments.errors import UserError
from experiments.failures import Reported, expected
from experiments.files import file_stems
from experiments.hydra_errors import explain_hydra
from experiments.models.local_causal_lm import LocalCausalLM
from experiments.source_selection import run
from experiments.store import Store
from experiments.text_files import texts
from fishersketch import FisherSketch, FisherSketchError, SketchSpec, head_terms

ROOT = Path(__file__).resolve().parent.parent
SIZES = {"window_tokens": 16, "train_windows": 4, "sketch_windows": 4, "held_out_windows": 2}
RANGES = {"low": (0, 80), "high": (120, WORDS - 1), "all": (0, WORDS - 1)}


def test_there_are_sixty_cases_and_each_is_another():
    cases = [*SETTINGS, *PATHS, *((name, content) for name, content, _ in TEXTS), *MODELS, *RUNS]
    assert len(cases) + len(PROCESSES) >= 60
    assert len(set(map(str, cases))) == len(cases)


def entry(path: Path | str) -> dict[str, str]:
    return {"kind": "local_text", "group": "words", "path": str(path)}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a model, three texts and the config of both."""
    folder = tmp_path_factory.mktemp("place")
    save_tiny_llama(folder / "model")
    entries = {}
    for seed, (name, (first, last)) in enumerate(RANGES.items()):
        words = random.Random(seed)
        (folder / f"{name}.txt").write_text(" ".join(f"w{words.randint(first, last)}" for _ in range(600)))
        entries[name] = entry(folder / f"{name}.txt")
    write_domains(folder, entries)
    return folder


def write_domains(folder: Path, entries: dict[str, dict[str, str]]) -> None:
    head = {"defaults": ["/schema/domains/set@_here_", "_self_"], "name": "words", "piece_characters": 64}
    (folder / "conf" / "domains").mkdir(parents=True)
    path = folder / "conf" / "domains" / "words.yaml"
    path.write_text(yaml.safe_dump(head | SIZES | {"entries": entries}, sort_keys=False))


def composed(*overrides: str) -> Config:
    discover()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return load(compose("config", list(overrides)))


@pytest.mark.parametrize(("override", "says"), SETTINGS)
def test_a_setting(override, says):
    with pytest.raises(Exception) as caught:  # noqa: B017, PT011
        composed(override)
    line = expected(caught.value) or explain_hydra(caught.value, [override])
    assert line is not None and re.fullmatch(says, line)


def read_as_a_domain(path: Path | str) -> None:
    cfg = DomainSetConfig(piece_characters=64, **SIZES, entries={"mine": entry(path)})
    cfg.build(word_tokenizer(adds_bos=True))


@pytest.mark.parametrize(("name", "content", "says"), TEXTS, ids=[name for name, _, _ in TEXTS])
def test_a_text(tmp_path, name, content, says):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=rf"^domains\.entries\.mine{says}$"):
        read_as_a_domain(tmp_path / name)


@pytest.mark.parametrize(("path", "says"), PATHS, ids=lambda value: repr(value)[:20])
def test_a_path(path, says):
    with pytest.raises(UserError, match=rf"^domains\.entries\.mine{says}$"):
        read_as_a_domain(path)


@pytest.mark.parametrize("suffix", [".jsonl", ".csv"])
def test_a_line_that_memory_may_not_hold(tmp_path, suffix):
    path = tmp_path / f"big{suffix}"
    with path.open("wb") as file:
        file.truncate(1 << 30)  # a gigabyte of NUL in one line, on a file system that keeps holes as such
    with pytest.raises(UserError, match=r"big\.\w+: has a line longer than 256 MiB; divide it$"):
        list(texts(path, "text"))


def test_a_gigabyte_that_is_no_text_is_refused_at_its_start(tmp_path):
    with (tmp_path / "big.txt").open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(UserError, match="big.txt holds binary data, not text"):
        next(texts(tmp_path / "big.txt", None))


def damaged(place: Path, tmp_path: Path, damage) -> Path:
    folder = shutil.copytree(place / "model", tmp_path / "model")
    damage(folder)
    return folder


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore")
def test_a_model(place, tmp_path, name):
    damage, says = MODELS[name]
    with pytest.raises(UserError) as caught:
        LocalCausalLM(path=str(damaged(place, tmp_path, damage))).build(torch.device("cpu"))
    assert re.fullmatch(says, str(caught.value))


def start(folder: Path, model: Path, *overrides: str, domains: Path | None = None) -> dict:
    """Runs the job in a folder, on its domains or those of another, and returns the metrics."""
    common = [
        f"hydra.searchpath=[{(domains or folder) / 'conf'}]",
        "domains=words",
        "model=local",
        f"model.path={model}",
    ]
    common += ["transfer=none", "estimator.num_features=64", "estimator.exact_windows=2", "smoke=true"]
    cfg = composed(*common, *overrides)
    with Store(folder / "run", {}, "test") as store:
        cfg.device = pick_device(cfg.device, 0)
        run(cfg, store)
    return json.loads((folder / "run" / "metrics.json").read_text())


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FISHERSKETCH_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("name", RUNS)
def test_a_run(place, tmp_path, own_cache, name):
    damage, overrides, says = RUNS[name]
    overrides = [override.replace("{}", str(place)) for override in overrides]
    with pytest.raises(Reported) as caught:
        start(tmp_path, damaged(place, tmp_path, damage), "device=cpu", *overrides, domains=place)
    assert re.fullmatch(says, str(caught.value))
    assert "Traceback" not in (tmp_path / "run" / "run.log").read_text()


@pytest.mark.parametrize(("arguments", "says"), PROCESSES)
def test_a_process(arguments, says):
    line = [sys.executable, "run.py", *arguments]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(says, done.stderr.removesuffix("\n"))


def test_values_that_are_not_finite_stop_their_domain_alone(place, tmp_path, own_cache):
    nan = filled("model.embed_tokens.weight", float("nan"), slice(92, 109))  # of w90 to w106
    model = damaged(place, tmp_path, nan)
    entries = {name: entry(place / f"{name}.txt") for name in RANGES}
    for name in ("second", "third"):
        draws = random.Random(name)
        words = [f"w{number}" for number in (*range(80), *range(120, WORDS))]
        (tmp_path / f"{name}.txt").write_text(" ".join(draws.choice(words) for _ in range(600)))
        entries[name] = entry(tmp_path / f"{name}.txt")
    write_domains(tmp_path, entries)
    found = start(tmp_path, model, "device=cpu")
    assert found["domains"] == ["low", "high", "second", "third"]
    reason = found["not_finite"].pop("all")
    assert not found["not_finite"]
    assert re.match(r"domain all, windows 0 to 1: LlamaForCausalLM gives activations that .*: its", reason)
    assert f"left out: {reason}" in (tmp_path / "run" / "run.log").read_text()
    shutil.rmtree(tmp_path / "run")
    with pytest.raises(Reported, match=r"has 2 domains; ranking .* at least 3; domain all, windows 0 to"):
        start(tmp_path, model, "device=cpu", "domains.limit=3")


@pytest.mark.parametrize(
    "experiment", ["source_selection", "smiles", "routing", "continual", "identifiability"]
)
def test_a_model_of_images_reads_no_text(place, tmp_path, experiment):
    class Images:
        name, tokenizer = "images", None

        def build(self, device):
            return self

    overrides = [f"experiment={experiment}", f"hydra.searchpath=[{place / 'conf'}]", "domains=words"]
    cfg = composed(*overrides, "domains.include=null")
    cfg.model, cfg.device = Images(), "cpu"
    with pytest.raises(
        Reported, match=r"^domains=words: are texts, and a model of images reads none; choose"
    ):
        with Store(tmp_path / "run", {}, "test") as store:
            job(cfg.job)(cfg, store)


def test_a_context_without_a_limit_is_none(place, tmp_path):
    bloom = damaged(place, tmp_path, another("BloomForCausalLM", hidden_size=16, n_layer=1, n_head=2))
    loaded = LocalCausalLM(path=str(bloom)).build(torch.device("cpu"))
    assert loaded.context_length is None


def test_names_of_domains_are_no_paths(place, tmp_path, own_cache):
    names = dict(zip(("../up", "a/b", "all"), RANGES, strict=True))
    write_domains(tmp_path, {name: entry(place / f"{file}.txt") for name, file in names.items()})
    start(tmp_path, place / "model", "device=cpu")
    written = {path.name for path in (tmp_path / "run" / "signatures").iterdir()}
    assert written == {"-up.safetensors", "a-b.safetensors", "all.safetensors"}
    assert not list((tmp_path / "run").glob("*.safetensors"))


def test_a_domain_without_a_name(place):
    with pytest.raises(UserError, match="^domains.entries: has a domain without a name$"):
        DomainSetConfig(**SIZES, entries={"": entry(place / "low.txt")}).check("domains")


def test_names_of_files_differ_and_are_short_enough():
    stems = file_stems(["x" * 300, "x" * 301, "", ".", "é" * 200, "A", "a", "con:", "n\0l", ".hid"])
    assert len({stem.casefold() for stem in stems}) == len(stems)
    assert all(0 < len(stem.encode()) <= 190 for stem in stems)
    assert not any(set(stem) & set('/\\:*?"<>|\0') or stem.startswith(".") for stem in stems)


def test_a_domain_whose_tokens_are_all_masked_has_no_signature(place):
    loaded = LocalCausalLM(path=str(place / "model")).build(torch.device("cpu"))
    ids = torch.arange(12).view(2, 6)
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    terms = head_terms(loaded.model, inputs, torch.full_like(ids, -100))
    assert len(terms.activations) == 0
    sketch = FisherSketch(SketchSpec(16, WORDS + 2, 8))
    sketch.update(terms.activations, terms.errors, terms.group)
    with pytest.raises(FisherSketchError, match="the sketch has seen no samples"):
        sketch.signature()
