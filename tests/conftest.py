import pytest
import torch

from experiments.models.base import LoadedModel
from experiments.models.package_gguf import PackageGguf


@pytest.fixture(scope="session")
def small_model() -> LoadedModel:
    """The real small model, on the CPU; fetched and converted once a machine."""
    return PackageGguf().build(torch.device("cpu"))
