"""The exact alignment of a run's domains on their first windows, to hold the sketch against."""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import torch

from experiments.config import EstimatorConfig
from experiments.domains.base import Domain
from experiments.matmul import fast_float32
from experiments.models.base import LoadedModel
from experiments.progress import progress, progress_bar
from experiments.signatures import provenance
from experiments.store import Store
from experiments.streaming import stream_terms
from experiments.tensors import digest
from fishersketch import Alignment, exact_align


def exact_alignment(
    cfg: EstimatorConfig, loaded: LoadedModel, domains: Sequence[Domain], store: Store
) -> Alignment:
    """Computes the exact alignment on the first `exact_windows` windows of each domain.

    Args:
        cfg: How; `exact_windows` must be above 0.
        loaded: A causal language model.
        domains: The T domains.
        store: The run, for its cache.

    Returns:
        The alignment. It needs T x n x K errors in memory at once.
    """
    windows = [domain.sketch[: cfg.exact_windows] for domain in domains]

    def make(path: Path) -> None:
        tasks = []
        for domain, part in zip(progress(domains, "errors for the exact alignment"), windows, strict=True):
            blocks = list(stream_terms(loaded, part, 0, cfg, domain.name))
            tasks.append((
                torch.cat([block.activations for block in blocks]),
                torch.cat([block.errors for block in blocks]),
                torch.cat([block.group for block in blocks]),
            ))
        count = len(tasks) * (len(tasks) + 1) // 2
        with fast_float32(loaded.device), progress_bar("exact alignment", count) as bar:
            table = exact_align(
                tasks, cfg.self_terms, cfg.sample_unit, progress=lambda done, count: bar.update()
            )
        arrays: dict[str, Any] = as_arrays(table)
        np.savez(path, **arrays)

    key = {
        "windows": [digest(part) for part in windows],
        "self_terms": cfg.self_terms,
        "sample_unit": cfg.sample_unit,
        "provenance": provenance(cfg, loaded),
    }
    with np.load(store.cache.get("exact", key, make, ".npz"), allow_pickle=False) as arrays:
        tensors = {name: torch.from_numpy(arrays[name]) for name in arrays.files}
    return Alignment(**tensors, self_terms=cfg.self_terms)


def as_arrays(table: Alignment) -> dict[str, np.ndarray]:
    """Returns the matrices and vectors of an alignment by name."""
    values = {field.name: getattr(table, field.name) for field in fields(table)}
    return {name: value.numpy() for name, value in values.items() if isinstance(value, torch.Tensor)}
