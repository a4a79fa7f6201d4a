import os

# One thread a process: sums in one order on every machine, no fight for cores. Read when torch is imported.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from collections.abc import Iterator  # noqa: E402
from pathlib import Path  # noqa: E402

import pytest  # noqa: E402
import torch  # noqa: E402

from experiments.domains.base import Domain  # noqa: E402
from experiments.models.base import LoadedModel  # noqa: E402
from experiments.models.package_gguf import PackageGguf  # noqa: E402
from experiments.store import Store  # noqa: E402
from tests.tiny_models import markov_domain  # noqa: E402


@pytest.fixture(scope="session")
def small_model() -> LoadedModel:
    """The real small model, on the CPU; fetched and converted once a machine."""
    return PackageGguf().build(torch.device("cpu"))


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A run that is open, with a cache of its own."""
    monkeypatch.setenv("FISHERSKETCH_CACHE", str(tmp_path / "cache"))
    with Store(tmp_path / "run", {"job": "test"}, "pytest") as opened:
        yield opened


@pytest.fixture
def domains() -> list[Domain]:
    """Three small domains with different Markov chains."""
    return [markov_domain(name, seed) for seed, name in enumerate("abc")]
