"""Ranking a user's texts: scores, errors, words, noise, what is left out, and the command as it is typed."""

import json
import math
import os
import random
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hydra import compose, initialize_config_dir
from saved_models import WORDS, save_tiny_llama

import analysis
from experiments.config import discover, load, resolved
from experiments.errors import UserError
from experiments.failures import Reported
from experiments.hydra_errors import explain_hydra
from experiments.select import run
from experiments.selecting.noise import Difference
from experiments.selecting.words import coupling_is_clear, describe
from experiments.store import Store
from fishersketch import FisherSketch, TaskSignature, align
from fishersketch.library import SignatureLibrary, read_files
from fishersketch.sampling import stderr_sampling

ROOT = Path(__file__).resolve().parent.parent
SMALL = ("smoke=true", "device=cpu", "estimator.num_features=256", "settings.tokens=256")
SMALL = (*SMALL, "settings.window_tokens=16")


def words(first: int, last: int, seed: int, count: int = 700) -> str:
    draw = random.Random(seed)
    return "".join(f"w{draw.randint(first, last)}{' ' if i % 9 else chr(10)}" for i in range(count))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a model, a target and sources, where runs and the cache go too."""
    folder = tmp_path_factory.mktemp("select")
    save_tiny_llama(folder / "model")
    data = folder / "data"
    data.mkdir()
    (folder / "my.jsonl").write_text(
        "".join(json.dumps({"text": line}) + "\n" for line in words(0, 60, 1).splitlines())
    )
    (data / "near.txt").write_text(words(0, 70, 2))
    (data / "far.txt").write_text(words(120, WORDS - 1, 3))
    (data / "middle.csv").write_text("text\n" + words(40, 140, 4))
    (data / "short.txt").write_text("w1 w2 w3")
    (data / "broken.jsonl").write_text('{"text": "w1"}\n{"text"\n')
    (data / "again.txt").write_text(
        (folder / "my.jsonl").read_text().replace('{"text": "', "").replace('"}', "")
    )
    return folder


@pytest.fixture(autouse=True)
def cache(place, monkeypatch):
    monkeypatch.setenv("FISHERSKETCH_CACHE", str(place / "cache"))


def config(place: Path, *overrides: str):
    discover()
    given = ["experiment=select", "model=local", f"model.path={place / 'model'}", *SMALL, *overrides]
    if not any(one.startswith("target=") for one in overrides):
        given.append(f"target={place / 'my.jsonl'}")
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        return compose("config", given)


def select(place: Path, name: str, *overrides: str) -> tuple[dict, Path]:
    """The metrics and the folder of a run."""
    raw = config(place, *overrides)
    with Store(place / "runs" / name, resolved(raw), name) as store:
        run(load(raw), store)
    return json.loads((store.folder / "metrics.json").read_text()), store.folder


@pytest.fixture(scope="module")
def ranked(place, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FISHERSKETCH_CACHE", str(place / "cache"))
        return select(place, "ranked", f"sources={place / 'data'}")


def left_out(metrics: dict) -> dict[str, str]:
    return {one["source"]: one["reason"] for one in metrics["left_out"]}


def test_sources_are_ranked_best_first_with_all_that_is_promised(ranked):
    metrics, _ = ranked
    rows = metrics["ranking"]
    assert [row["source"] for row in rows] == ["near.txt", "middle.csv", "far.txt"]
    keys = {
        "source",
        "joint",
        "stderr_sketch",
        "stderr_sampling",
        "activation",
        "error",
        "coupling",
        "n_tokens",
    }
    for row in rows:
        assert keys <= set(row)
        assert row["n_tokens"] == 256
        assert row["stderr_sketch"] > 0 and row["stderr_sampling"] > 0
    assert rows[0]["joint"] > rows[1]["joint"] > rows[2]["joint"]


def test_scores_and_errors_are_those_of_the_core(ranked, place):
    metrics, folder = ranked
    rows = metrics["ranking"]
    files = [
        folder / "signatures" / f"{name}.safetensors" for name in ("my.jsonl", *(r["source"] for r in rows))
    ]
    table = align([TaskSignature.load(file) for file in files])
    for number, row in enumerate(rows, start=1):
        for key in ("joint", "activation", "error", "coupling", "stderr_sketch"):
            assert row[key] == pytest.approx(float(getattr(table, key)[0, number]), rel=1e-9)


def test_what_cannot_be_ranked_is_named_with_its_reason(ranked, place):
    reasons = left_out(ranked[0])
    assert set(reasons) == {"short.txt", "broken.jsonl", "again.txt"}
    need = f"{place}/data/short.txt: has 3 tokens, but needs 128 (8 windows of 16); give it more text"
    assert reasons["short.txt"].startswith(need)
    assert "broken.jsonl, line 2: not JSON" in reasons["broken.jsonl"]
    assert reasons["again.txt"] == "holds the same text as the target my.jsonl"


def test_the_target_among_the_sources_is_left_out(place):
    metrics, _ = select(place, "own", f"sources=[{place}/my.jsonl,{place}/data/near.txt]")
    assert left_out(metrics) == {"my.jsonl": "holds my.jsonl, a file of the target my.jsonl"}
    assert metrics["noise"] is None


def test_only_unseen_sources_are_sketched_again(place, ranked, monkeypatch):
    (place / "new.txt").write_text(words(0, 90, 9))
    streamed = []

    def update(self, *arguments):
        streamed.append(1)
        return original(self, *arguments)

    original = FisherSketch.update
    monkeypatch.setattr(FisherSketch, "update", update)
    again, _ = select(place, "again", f"sources={place / 'data'}")
    assert streamed == [] and again["ranking"] == ranked[0]["ranking"]
    select(place, "more", f"sources=[{place}/data/near.txt,{place}/new.txt]")
    assert len(streamed) == 8


def test_text_shared_with_the_target_or_between_sources_is_flagged(place):
    lines = words(0, 60, 1).splitlines()
    (place / "part.txt").write_text("\n".join([*words(0, 60, 5, 350).splitlines(), *lines]))
    (place / "twin.txt").write_text((place / "data" / "near.txt").read_text())
    metrics, _ = select(
        place,
        "shared",
        f"sources=[{place}/part.txt,{place}/twin.txt,{place}/data/near.txt]",
        "settings.tokens=640",
    )
    said = "\n".join(metrics["warnings"])
    assert "part.txt holds " in said and "% of the target's lines too" in said
    assert "near.txt holds the same text as twin.txt" in said
    shares = {row["source"]: row["shared_with_target"] for row in metrics["ranking"]}
    assert shares["part.txt"] > 0.1 > shares["near.txt"]


def test_equal_sources_are_within_noise(place):
    (place / "near2.txt").write_text(words(0, 70, 22))
    metrics, folder = select(place, "noise", f"sources=[{place}/near2.txt,{place}/data/near.txt]")
    noise = metrics["noise"]
    assert noise["within_noise"] and noise["difference"] >= 0
    assert any(line.startswith("within noise: ") for line in metrics["warnings"])
    assert "Warning: within noise" in analysis.present(folder)


def test_a_library_is_ranked_beside_texts(place, ranked, tmp_path):
    library = SignatureLibrary(tmp_path / "lib")
    library.add(read_files([ranked[1] / "signatures"]))
    assert library.names() == ["far.txt", "middle.csv", "my.jsonl", "near.txt"]
    library.remove("my.jsonl")
    metrics, folder = select(place, "library", f"sources={library.folder}")
    for row, text in zip(metrics["ranking"], ranked[0]["ranking"], strict=True):
        assert row["source"] == f"{text['source']}.safetensors"
        assert row["joint"] == pytest.approx(text["joint"]) and row["n_tokens"] == 256
        assert row["stderr_sampling"] is None
    shown = analysis.present(folder)
    assert "keeps no blocks" in shown and "clearly the best" not in shown
    other, _ = select(
        place, "mixed", f"sources=[{library.folder}/near.txt.safetensors,{place}/data/far.txt]", "seed=1"
    )
    assert left_out(other)["near.txt.safetensors"].endswith(
        "cannot be compared with the target: seed: 0 against 1"
    )


def test_what_the_run_shows_is_read_in_a_minute(ranked):
    shown = analysis.present(ranked[1])
    assert shown.startswith("Smoke run, not a result. Sources for my.jsonl (256 tokens), best first")
    assert [line.split()[1] for line in shown.splitlines() if line[:1] in "123" and line[:1]] == [
        "near.txt",
        "middle.csv",
        "far.txt",
    ]
    assert "Left out\n" in shown and len(shown.splitlines()) < 40
    written = {path.name for path in ranked[1].rglob("*") if path.parent.name in ("tables", "figures")}
    assert written == {"ranking.csv", "ranking.md", "ranked_sources.png", "ranked_sources.pdf"}


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (
            ("sources={}/data/short.txt",),
            "sources: none is left to rank; short.txt: .*has 3 tokens, but needs",
        ),
        (("target={}/data/short.txt", "sources={}/data"), ".*/short.txt: has 3 tokens, but needs 128"),
        (("target={}/none.txt", "sources={}/data"), "target=.*/none.txt: there is no such file or folder"),
        (("target={}/data/broken.jsonl", "sources={}/data"), "target: .*broken.jsonl, line 2: not JSON"),
        (
            ("sources={}/data", "settings.field=body"),
            "settings.field=body: .*my.jsonl, line 1: no such field",
        ),
        ((), "sources: must be set, as in sources=folder"),
        (
            ("sources={}/data", "settings.window_tokens=128"),
            "settings.tokens=256: must be at least 8 x settings",
        ),
        (
            ("sources={}/data", "settings.window_tokens=128", "settings.tokens=1024"),
            "settings.window_tokens=128: must be less than the model's context of 128 tokens",
        ),
    ],
)
def test_a_mistake_is_one_line(place, overrides, says, tmp_path):
    raw = config(place, *(override.replace("{}", str(place)) for override in overrides))
    with pytest.raises(Reported, match=f"^{says}") as caught:
        with Store(tmp_path / "run", resolved(raw), "x") as store:
            run(load(raw), store)
    assert "\n" not in str(caught.value)


def test_other_jobs_take_no_target(place):
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        raw = compose("config", ["target=my.jsonl"])
    with pytest.raises(UserError, match="^target: job=source_selection takes none; experiment=select does$"):
        load(raw)


def test_words_compare_the_candidates():
    factors = {"activation": [0.9, 0.1, 0.5], "error": [0.5, 0.51, 0.5], "coupling": [1.0, 2.0, math.nan]}
    assert describe(factors) == [
        "same words, in other places",
        "other words, in the same places",
        "similar words",
    ]
    assert describe({name: [0.7] for name in factors}) == [""]
    assert coupling_is_clear(0.5, 0.8, 0.7, 0.9) and not coupling_is_clear(0.5, 0.8, 0.7, 2.0)
    assert not coupling_is_clear(math.nan, 0.8, 0.7, 1.0)


@pytest.mark.parametrize(
    ("difference", "sketch", "sampling", "expected"),
    [
        (0.10, 0.0, 0.1, (4000, 100)),  # four times the tokens halve the error
        (0.10, 0.1, 0.0, (1000, 800)),  # the features' share alone is too large
        (0.10, 0.1, 0.1, (8000, 800)),
        (0.0, 0.1, 0.1, None),
        (1e-9, 0.1, 0.1, None),
    ],
)
def test_what_would_settle_a_ranking(difference, sketch, sampling, expected):
    found = Difference(difference, sketch, sampling)
    assert found.within_noise
    assert found.to_settle(1000, 100) == expected
    if expected is not None:
        tokens, features = expected
        error = math.hypot(sketch * (100 / features) ** 0.5, sampling * (1000 / tokens) ** 0.5)
        assert Difference(difference + 1e-12, error, 0.0).within_noise is False


def test_the_error_of_a_lone_source_is_the_jackknife_of_the_core(place, ranked):
    """One pair of texts, with blocks made by hand from the same windows."""
    from experiments.selecting.blocks import block_sketches
    from experiments.selecting.reading import read_sample

    cfg = load(config(place, f"sources={place / 'data'}"))
    loaded = cfg.model.build(torch.device("cpu"))
    store = Store(place / "unused", {}, "x")
    blocks = []
    for path in (place / "my.jsonl", place / "data" / "near.txt"):
        lines = path.read_text().splitlines()
        documents = (
            [json.loads(line)["text"] for line in lines] if path.suffix == ".jsonl" else [path.read_text()]
        )
        sample = read_sample(documents, loaded.tokenizer, 256, 16)
        blocks.append(block_sketches(cfg.estimator, loaded, sample.windows, 0, path.name, store.cache))
    expected = float(stderr_sampling(blocks)[0, 1])
    assert ranked[0]["ranking"][0]["stderr_sampling"] == pytest.approx(expected, rel=1e-9)


def command(place: Path, *arguments: str) -> subprocess.CompletedProcess:
    env = {name: value for name, value in os.environ.items() if not name.startswith("HYDRA")}
    env |= {"FISHERSKETCH_CACHE": str(place / "cache"), "OMP_NUM_THREADS": "1"}
    line = [sys.executable, "run.py", "experiment=select", f"store={place / 'typed'}", *arguments]
    return subprocess.run(line, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300)


def test_the_command_as_it_is_typed(place):
    model = ("model=local", f"model.path={place / 'model'}", *SMALL)
    (place / "my texts").mkdir()
    (place / "my texts" / "my.jsonl").write_text((place / "my.jsonl").read_text())
    done = command(place, f"target={place}/my texts/my.jsonl", f"sources={place}/data/*ar.txt", *model)
    assert done.returncode == 0, done.stderr
    assert "near.txt" in done.stdout and "far.txt" in done.stdout and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "path", ["/data/a=1.txt", "café.txt", "data/[ab].txt", "data/#1 {x}.txt", 'a "b".txt']
)
@pytest.mark.parametrize("key", ["target", "sources"])
def test_a_path_that_hydra_refuses_is_printed_in_quotes_that_work(place, key, path):
    argument = f"{key}={path}"
    with pytest.raises(Exception) as caught:  # noqa: B017, PT011
        config(place, argument)
    line = explain_hydra(caught.value, [argument])
    assert line is not None and line.startswith(f"{argument}: Hydra cannot read this value; quote it: ")
    (quoted,) = shlex.split(line.partition("quote it: ")[2])
    assert config(place, quoted).settings[key] == path


def test_spaces_and_globs_need_no_quotes_of_hydra(place):
    raw = config(place, "target=my texts/a.txt", "sources=data/**/*.t?t")
    assert (raw.settings.target, raw.settings.sources) == ("my texts/a.txt", "data/**/*.t?t")
