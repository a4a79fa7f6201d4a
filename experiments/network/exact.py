"""The exact alignment over all parameters, from kernels that are kept in the cache."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from experiments.config import Config
from experiments.matmul import fast_float32
from experiments.models.base import LoadedModel
from experiments.network.samples import SampledTask
from experiments.progress import progress_bar
from experiments.store import Store
from fishersketch.gradient_kernels import gradient_kernels

_RECIPE = 1


def parameter_kernels(
    cfg: Config, loaded: LoadedModel, tasks: Sequence[SampledTask], store: Store
) -> dict[str, torch.Tensor]:
    """Returns the (S, S) kernels of every parameter over the samples of all tasks, in order."""
    samples = [sample for task in tasks for sample in task.samples]

    def make(path: Path) -> None:
        parameters = dict(loaded.model.named_parameters())
        with progress_bar("exact gradients", len(samples)) as bar, fast_float32(loaded.device):

            def step(done: int, total: int) -> None:
                bar.total = total
                bar.update()

            kernels = gradient_kernels(
                loaded.model, samples, parameters, cfg.settings.chunk_megabytes << 20, step
            )
        arrays = {name: kernel.numpy() for name, kernel in kernels.items()}
        np.savez(path, **arrays)  # type: ignore[arg-type]

    key = {
        "model": loaded.fingerprint,
        "samples": [task.digest for task in tasks],
        "untied": True,
        "recipe": _RECIPE,
    }
    with np.load(store.cache.get("gradient_kernels", key, make, ".npz"), allow_pickle=False) as arrays:
        return {name: torch.from_numpy(arrays[name]) for name in arrays.files}


def depth_of(name: str) -> int | None:
    """Returns the number of the block that a dotted name lies in; None outside of all.

    >>> depth_of("model.layers.3.mlp.down_proj.weight"), depth_of("lm_head.weight")
    (3, None)
    """
    found = re.search(r"(?:^|\.)(\d+)\.", name)
    return None if found is None else int(found[1])


def by_depth(kernels: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Returns the kernels of whole blocks of the network; a parameter outside of all is one by itself."""
    summed: dict[str, torch.Tensor] = {}
    for name, kernel in kernels.items():
        depth = depth_of(name)
        block = name if depth is None else f"block {depth}"
        summed[block] = summed[block] + kernel if block in summed else kernel
    return summed
