"""Composition of conf/ into dataclasses, and what a mistaken override or file says."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest
import yaml
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig

from experiments.command_line import command
from experiments.config import Config, EstimatorConfig, discover, load, resolved
from experiments.devices import pick_device
from experiments.discovery import jobs
from experiments.errors import UserError
from experiments.failures import expected
from experiments.help_text import help_text
from experiments.hydra_errors import explain_hydra
from experiments.store import config_hash

CONF = Path(__file__).resolve().parent.parent / "conf"
CHOICES = sorted(f"{path.parent.name}={path.stem}" for path in CONF.glob("*/*.yaml"))


def composed(*overrides: str, **options: bool) -> DictConfig:
    discover()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose("config", list(overrides), **options)


def said(*overrides: str) -> str:
    """The line for overrides that do not compose, or do not load."""
    with pytest.raises(Exception) as caught:  # noqa: B017, PT011
        load(composed(*overrides))
    line = expected(caught.value) or explain_hydra(caught.value, list(overrides))
    assert line is not None, caught.value
    assert "\n" not in line
    return line


def test_the_default_config_is_the_default_dataclasses():
    cfg = load(composed())
    assert (cfg.job, cfg.seed, cfg.device, cfg.store, cfg.smoke) == (
        "source_selection",
        0,
        "auto",
        "runs",
        False,
    )
    assert cfg.estimator == EstimatorConfig()
    assert (cfg.model.name, cfg.domains.name, cfg.transfer.mode) == ("smollm2_135m", "demo12", "full")


@pytest.mark.parametrize("choice", [c for c in CHOICES if c not in ("model=local", "transfer=csv")])
def test_every_choice_of_every_group_composes(choice):
    cfg = load(composed(choice))
    assert isinstance(cfg, Config)
    group, _, name = choice.partition("=")
    if group != "experiment":
        written = yaml.safe_load((CONF / group / f"{name}.yaml").read_text()) or {}
        for key, value in written.items():
            assert key in ("defaults", "kind") or getattr(getattr(cfg, group), key) == value


def test_experiments_open_with_their_command_and_what_they_make():
    for path in (CONF / "experiment").glob("*.yaml"):
        first, second = path.read_text().splitlines()[:2]
        assert first == "# @package _global_"
        assert second.startswith(f"# python run.py experiment={path.stem}")
        assert composed(f"experiment={path.stem}").job in jobs()


def test_resolved_config_names_kinds_and_survives_yaml():
    plain = resolved(composed("domains=tiny", "estimator.num_features=64"))
    assert plain["model"]["kind"] == "package_gguf"
    assert plain["domains"]["kind"] == "set"
    assert plain["estimator"] == {"kind": "fishersketch"} | asdict(EstimatorConfig(num_features=64))
    assert yaml.safe_load(yaml.safe_dump(plain)) == plain
    assert json.loads(json.dumps(plain)) == plain


def test_config_hash_sees_every_setting_but_where_a_run_goes():
    base = config_hash(resolved(composed()))
    assert config_hash(resolved(composed("store=elsewhere", "logger=wandb", "logger.project=x"))) == base
    changes = ("seed=1", "smoke=true", "estimator.self_terms=plain", "domains.seed=1", "transfer.seeds=[1]")
    hashes = {config_hash(resolved(composed(change))) for change in changes}
    assert len(hashes | {base}) == len(changes) + 1


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("seed=abc", "seed=abc: must be an integer"),
        ("seed=-1", "seed=-1: must be at least 0"),
        ("seed=null", "seed=null: must not be null"),
        ("smoke=perhaps", "smoke=perhaps: must be true or false"),
        ("sed=1", "sed=1: no such setting; did you mean seed?"),
        ("+foo=1", "foo: no such setting; known: device, domains"),
        ("estimator.num_features=0", "estimator.num_features=0: must be at least 1"),
        ("estimator.num_features=2.5", "estimator.num_features=2.5: must be an integer"),
        ("estimator.num_featurs=8", "estimator.num_featurs=8: no such setting; did you mean num_features?"),
        (
            "estimator.projection=gaussian",
            "estimator.projection=gaussian: must be one of rademacher",
        ),
        ("+estimator.foo=1", "estimator.foo: no such setting; known: baselines"),
        ("transfer.seeds=3", "transfer.seeds=3: must be a list, as [1,2]"),
        ("transfer.seeds=[0,-1]", "transfer.seeds=-1: must be at least 0"),
        ("transfer.seeds=[a]", "transfer.seeds[0]=a: must be an integer"),
        ("model=typo", "model=typo: no such choice; choose one of glyph_vit, llama31_8b, local"),
        ("experiment=typo", "experiment=typo: no such choice; choose one of"),
        ("estimator=null", "estimator=null: a group needs a choice"),
        ("model=local", "model.path: must be set"),
        ("model.name=${nope}", "model.name: Interpolation key 'nope' not found"),
        ("job=nothing", "job=nothing: must be one of"),
        ("~model", "model.kind: must be set, to one of glyph_vit, hub_causal_lm"),
        ("seed=1,2", "seed=1,2: a list is written seed=[1,2], and a sweep needs -m before it"),
        ("seed", "seed: a setting is written KEY=VALUE"),
        ("store=a=b", "store=a=b: Hydra cannot read this value; quote it: 'store=\"a=b\"'"),
        ("store={a}", "store={a}: Hydra cannot read this value; quote it: 'store=\"{a}\"'"),
        ("store=é", "store=é: Hydra cannot read this value; quote it: 'store=\"é\"'"),
        ("store=a#b", "store=a#b: Hydra cannot read this value; quote it: 'store=\"a#b\"'"),
        ('store=a"b', 'store=a"b: Hydra cannot read this value; quote it: \'store="a\\"b"\''),
    ],
)
def test_a_mistaken_override_is_one_line(override, line):
    assert said(override).startswith(line)


@pytest.mark.parametrize(
    "value", ["my runs", "a=b", "{a}", "é", "a#b", 'a"b', "a,b", "a\\b", "it's", "[1]", "a: b"]
)
def test_the_quoted_form_is_the_value_itself(value):
    quoted = value.replace("\\", "\\\\") if value.endswith("\\") else value
    override = 'store="' + quoted.replace('"', '\\"') + '"'
    assert load(composed(override)).store == value


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: [b\n", "{path}, line 2: expected ',' or ']', but got '<stream end>'"),
        (
            "{schema}nam: x\n",
            "model.nam: no such setting; did you mean name?",
        ),
        (
            "{schema}name: [x]\n",
            "model.name: must be text (in model/mine.yaml)",
        ),
        ("name: x\n", "model.kind: must be set, to one of glyph_vit, hub_causal_lm, local_causal_lm"),
        ("kind: package_ggu\n", "model.kind=package_ggu: must be one of glyph_vit"),
        ("kind: package_gguf\nnam: x\n", "model.nam: no such setting; did you mean name?"),
    ],
)
def test_a_mistaken_file_is_one_line(text, line, tmp_path):
    path = tmp_path / "model" / "mine.yaml"
    path.parent.mkdir()
    schema = "defaults: [/schema/model/package_gguf@_here_, _self_]\n"
    path.write_text(text.replace("{schema}", schema))
    assert said(f"hydra.searchpath=[{tmp_path}]", "model=mine").startswith(line.replace("{path}", str(path)))


def test_a_file_may_name_its_kind(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine.yaml").write_text("kind: package_gguf\nname: mine\n")
    assert load(composed(f"hydra.searchpath=[{tmp_path}]", "model=mine")).model.name == "mine"


def test_run_folders_are_told_apart_to_the_microsecond_and_never_at_the_root():
    raw = composed("store=x", return_hydra_config=True)
    first = str(raw.hydra.run.dir)
    assert first.startswith("x/") and first.endswith("-source_selection")
    assert first != str(composed("store=x", return_hydra_config=True).hydra.run.dir)
    with pytest.raises(Exception, match="store='': must be the name of a folder"):
        str(composed("store=", return_hydra_config=True).hydra.run.dir)


def test_schemas_are_no_choices_and_every_field_is_documented():
    text = help_text(CONF, Config)
    assert "schema" not in text
    for path in CONF.glob("*/*.yaml"):
        assert path.stem in text
    assert "estimator.num_features (default 4096, min 1): Features" in text
    assert "model.path (to be set): " in text
    assert "domains.entries.NAME with kind: django_po" in text
    undocumented = [line for line in text.splitlines() if line.endswith("): ")]
    assert undocumented == []


def test_devices():
    import torch

    assert pick_device("cpu") == "cpu"
    assert pick_device("auto") == ("cuda:0" if torch.cuda.is_available() else "cpu")
    with pytest.raises(UserError, match="^device=gpu: must be auto, cpu, cuda or cuda:N$"):
        pick_device("gpu")
    with pytest.raises(UserError, match="^device=cuda:64: torch sees .* CUDA devices?; use device=cpu$"):
        pick_device("cuda:64")


def test_the_command_of_a_run_of_a_sweep_is_its_own():
    assert command(["seed=1", 'store="my runs"'], sweep=True) == "python run.py seed=1 'store=\"my runs\"'"
