import os

# One thread a process: sums in one order on every machine, no fight for cores. Read when torch is imported.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import pytest  # noqa: E402
import torch  # noqa: E402

from experiments.models.base import LoadedModel  # noqa: E402
from experiments.models.package_gguf import PackageGguf  # noqa: E402


@pytest.fixture(scope="session")
def small_model() -> LoadedModel:
    """The real small model, on the CPU; fetched and converted once a machine."""
    return PackageGguf().build(torch.device("cpu"))
