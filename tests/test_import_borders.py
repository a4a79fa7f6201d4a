"""Imports point one way, and what is heavy is loaded by the code that needs it."""

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEAVY = {"transformers", "timm", "datasets", "peft", "wandb", "accelerate", "gguf", "pandas", "matplotlib"}
IMPORT_ALL = """
import importlib, pkgutil, sys
package = importlib.import_module(sys.argv[1])
for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""
REFUSED = """
import runpy, sys
sys.argv = ["run.py", "seed=abc"]
try:
    runpy.run_path("run.py", run_name="__main__")
except SystemExit as end:
    print(*sorted({name.partition(".")[0] for name in sys.modules}), end.code)
"""


def loaded(code: str, *arguments: str) -> set[str]:
    line = [sys.executable, "-c", code, *arguments]
    return set(subprocess.run(line, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.split())


def imported(path: Path) -> set[str]:
    """Top-level packages that a file imports anywhere, also inside functions."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            names.add(str(node.module).partition(".")[0])
    return names


def imports(package: str) -> set[str]:
    return set().union(*(imported(path) for path in (ROOT / package).rglob("*.py")))


def test_the_core_needs_torch_numpy_and_safetensors_only():
    allowed = set(sys.stdlib_module_names) | {"fishersketch", "torch", "numpy", "safetensors"}
    assert imports("fishersketch") - allowed == set()
    names = loaded(IMPORT_ALL, "fishersketch")
    assert "torch" in names
    assert names & (HEAVY | {"hydra", "omegaconf", "scipy", "experiments", "analysis", "run"}) == set()


def test_the_analysis_reads_files_only():
    forbidden = {"torch", "transformers", "hydra", "omegaconf", "experiments", "fishersketch", "run"}
    assert imports("analysis") & forbidden == set()
    names = loaded(IMPORT_ALL, "analysis")
    assert "matplotlib" in names
    assert names & forbidden == set()


def test_the_experiments_load_what_is_heavy_where_it_is_used():
    assert imports("experiments") & {"analysis", "run"} == set()
    assert loaded(IMPORT_ALL, "experiments") & (HEAVY | {"analysis", "run"}) == set()


def test_hydra_is_known_to_the_configuration_only():
    users = {path.name for path in (ROOT / "experiments").rglob("*.py") if "hydra" in imported(path)}
    assert users == {"config.py", "hydra_errors.py", "options.py"}


def test_a_mistake_is_answered_before_anything_heavy_is_loaded():
    names = loaded(REFUSED)
    assert {"hydra", "1"} <= names
    assert names & (HEAVY | {"scipy", "analysis"}) == set()
