"""The public names: each has a docstring, its public members too, and pages can be built from them."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import fishersketch
import fishersketch.baselines

ROOT = Path(__file__).resolve().parent.parent
PUBLIC = [(module, name) for module in (fishersketch, fishersketch.baselines) for name in module.__all__]


@pytest.mark.parametrize(("module", "name"), PUBLIC, ids=[f"{m.__name__}.{n}" for m, n in PUBLIC])
def test_a_public_name_has_a_docstring(module, name):
    thing = getattr(module, name)
    # A dataclass without one gets its signature.
    assert (thing.__doc__ or "").strip() and not thing.__doc__.startswith(f"{name}(")
    if inspect.isclass(thing):
        for key, member in vars(thing).items():
            function = getattr(member, "__func__", getattr(member, "fget", member))
            if not key.startswith("_") and inspect.isfunction(function):
                assert (function.__doc__ or "").strip(), f"{name}.{key}"


def test_pages_name_every_public_name():
    pytest.importorskip("pdoc", reason="the extra [docs] is not installed")
    line = ["make", "docs", f"PYTHON={sys.executable}"]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    for module, page in ((fishersketch, "fishersketch"), (fishersketch.baselines, "fishersketch/baselines")):
        text = (ROOT / "docs" / "api" / f"{page}.html").read_text(encoding="utf-8")
        assert all(f'id="{name}"' in text for name in module.__all__)
    assert {path.stem for path in (ROOT / "docs" / "api").rglob("*.html")} == {
        *("index", "fishersketch", "baselines")
    }
