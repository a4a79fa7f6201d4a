"""`make paper`: which experiments a profile has, what is not repeated, and how it ends."""

import json
import random
from pathlib import Path

import pytest
import yaml
from saved_models import WORDS, save_tiny_llama

from analysis.__main__ import main as analyse
from analysis.claims import read_claims
from experiments.config import compose_run
from experiments.discovery import jobs
from experiments.errors import UserError
from experiments.paper import PROFILES, Run, held_in, main


def composed(experiment: str, *overrides: str) -> Run:
    return Run(experiment, list(overrides), *compose_run([f"experiment={experiment}", *overrides]))


def keep(folder: Path, settings: dict, **about) -> None:
    folder.mkdir(parents=True)
    manifest = {"job": settings["job"], "status": "finished", "smoke": False} | about
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder / "config.yaml").write_text(yaml.safe_dump(settings))


def test_every_claim_that_an_experiment_speaks_about_is_in_every_profile():
    claims = [claim for claim in read_claims() if claim.job in jobs()]
    for name, profile in yaml.safe_load(PROFILES.read_text()).items():
        runs = [composed(experiment, *overrides) for experiment, overrides in profile["runs"].items()]
        covered = {(run.cfg.job, run.cfg.domains.name) for run in runs}
        for claim in claims:
            found = [data for job, data in covered if claim.job == job]
            assert found and (not claim.data or set(found) & set(claim.data)), (name, claim.id)
        assert not any(run.cfg.smoke for run in runs)


def test_a_run_is_held_by_a_record_with_the_same_settings(tmp_path):
    run = composed("smiles")
    assert held_in(run, [tmp_path]) is None
    keep(tmp_path / "elsewhere", run.settings | {"store": "other", "device": "cuda:0"})
    assert held_in(run, [tmp_path]) == tmp_path / "elsewhere"
    assert held_in(composed("smiles", "seed=1"), [tmp_path]) is None
    assert held_in(composed("smiles", "transfer=lora"), [tmp_path]) is None
    assert held_in(composed("scientific_strings"), [tmp_path]) is None


def test_a_setting_that_came_after_the_record_makes_no_other_run(tmp_path):
    run = composed("smiles")
    older = run.settings | {"transfer": dict(run.settings["transfer"])}
    del older["transfer"]["weight_decay"]
    keep(tmp_path / "a", older)
    assert held_in(run, [tmp_path]) == tmp_path / "a"
    fewer = dict(list(run.settings["domains"]["entries"].items())[:-1])
    keep(tmp_path / "b" / "c", run.settings | {"domains": run.settings["domains"] | {"entries": fewer}})
    assert held_in(run, [tmp_path / "b"]) is None


@pytest.mark.parametrize("about", [{"status": "failed"}, {"status": "interrupted"}, {"smoke": True}])
def test_what_is_no_result_holds_nothing(tmp_path, about):
    run = composed("smiles")
    keep(tmp_path / "a", run.settings, **about)
    assert held_in(run, [tmp_path]) is None


@pytest.mark.parametrize("words", [[], ["gpu"], ["cpu", "llama"]])
def test_an_unknown_profile_is_one_line(tmp_path, words):
    with pytest.raises(UserError, match=rf"PROFILE={' '.join(words)}: must be one of cpu, llama, as make"):
        main(words, folder=tmp_path)


def test_weights_out_of_reach_are_said_before_anything_runs(tmp_path):
    with pytest.raises(UserError, match="model.repo=meta-llama/Llama-3.1-8B: .* cannot be reached .* go onl"):
        main(["llama"], folder=tmp_path)
    assert not list((tmp_path / "runs").rglob("manifest.json"))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> list[str]:
    """Overrides that make any run a tiny one."""
    folder = tmp_path_factory.mktemp("tiny")
    save_tiny_llama(folder / "model")
    entries = []
    for number, name in enumerate(("low", "high", "all")):
        words = random.Random(number)
        first, last = {"low": (0, 80), "high": (120, WORDS - 1), "all": (0, WORDS - 1)}[name]
        (folder / f"{name}.txt").write_text(" ".join(f"w{words.randint(first, last)}" for _ in range(600)))
        entries.append(f"{name}:{{kind:local_text,group:words,licence:none,path:{folder}/{name}.txt}}")
    return [
        "model=local",
        f"model.path={folder}/model",
        "domains=local",
        f"++domains.entries={{{','.join(entries)}}}",
        "domains.include=[low,high,all]",
        *(f"domains.{key}" for key in ("window_tokens=16", "train_windows=4", "sketch_windows=4")),
        *("domains.held_out_windows=2", "domains.piece_characters=64", "transfer=none"),
        *("estimator.exact_windows=0", "estimator.num_features=64"),
    ]


def write_profiles(path: Path, runs: dict[str, list[str]], needs_gpu: bool = False) -> Path:
    path.write_text(yaml.safe_dump({"tiny": {"needs_gpu": needs_gpu, "runs": runs}}, sort_keys=False))
    return path


def test_models_that_need_a_gpu_are_refused_without_one(tmp_path, tiny, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    profiles = write_profiles(tmp_path / "p.yaml", {"source_selection": tiny}, needs_gpu=True)
    with pytest.raises(UserError, match="PROFILE=tiny: its models need a GPU and torch sees none"):
        main(["tiny"], profiles, tmp_path)


def test_it_stops_at_a_failure_goes_on_from_there_and_ends_in_a_report(tmp_path, tiny, monkeypatch, capfd):
    monkeypatch.setenv("FISHERSKETCH_CACHE", str(tmp_path / "cache"))
    other = [*tiny, "seed=1"]
    runs = {"source_selection": tiny, "smiles": tiny, "scientific_strings": other}
    profiles = write_profiles(tmp_path / "p.yaml", runs)
    with pytest.raises(UserError, match="experiment=smiles: failed with exit code 1, .* goes on from here"):
        main(["tiny"], profiles, tmp_path)
    assert "error: transfer: job=cross_domain needs held-out losses" in capfd.readouterr().err
    statuses = [
        (about["job"], about["status"])
        for about in (json.loads(f.read_text()) for f in (tmp_path / "runs").rglob("manifest.json"))
    ]
    assert sorted(statuses) == [("cross_domain", "failed"), ("source_selection", "finished")]
    profiles = write_profiles(tmp_path / "p.yaml", {"source_selection": tiny})
    main(["tiny"], profiles, tmp_path)
    said = capfd.readouterr()
    assert said.out.startswith("source_selection: is in runs/paper/tiny/") and said.out.count("\n") == 1
    (tmp_path / "results").mkdir()
    stores = [str(tmp_path / "results"), str(tmp_path / "runs" / "paper" / "tiny")]
    assert analyse(["report", *stores, "--out", str(tmp_path / "report")]) == 0
    assert f"2 runs in {stores[0]} and {stores[1]}, 1 shown as results." in capfd.readouterr().out
    assert (tmp_path / "report" / "report.html").is_file()
