"""The baselines of a run: which collector feeds each, their summaries in the cache, and their matrices."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save

from experiments.artefacts import ArtefactCache
from fishersketch.baselines import (
    Collector,
    LabelCounter,
    LabelMeansCollector,
    LargestErrors,
    diagonal_fisher_cosines,
    linear_cka,
    mean_gradient_cosines,
    on_label_means,
    pooled_mean,
    rsa,
    similarity_matrix,
    svcca,
    token_frequency_cosine,
)
from fishersketch.baselines.label_means import LabelMeans
from fishersketch.baselines.largest_errors import ErrorTerms
from fishersketch.baselines.outer_products import Cosines
from fishersketch.baselines.token_frequency import LabelCounts
from fishersketch.head import HeadTerms

# Counts up when a collector or a measure gives other numbers: what an older recipe made is not used.
_RECIPE = 1
# SVCCA of s shared labels has no value unless s exceeds the components of both sides together.
_SVCCA_SETTINGS = {"components": 5, "labels": 20}


@dataclass(frozen=True)
class Summary:
    """One kind of summary of a domain.

    Attributes:
        collector: Makes it from the chunks of a pass.
        content: Its class, whose fields are tensors or numbers.
    """

    collector: Callable[[], Collector]
    content: type


SUMMARIES = {
    "label_counts": Summary(LabelCounter, LabelCounts),
    "label_means": Summary(LabelMeansCollector, LabelMeans),
    "largest_errors": Summary(LargestErrors, ErrorTerms),
}


def _pairs(similarity: Callable[[Any, Any], float]) -> Callable[[Sequence[Any]], Cosines]:
    def matrix(summaries: Sequence[Any]) -> Cosines:
        value = similarity_matrix(summaries, similarity, undefined="nan")
        return Cosines(value, torch.zeros_like(value))

    return matrix


def _centred(terms: Sequence[ErrorTerms]) -> Cosines:
    return mean_gradient_cosines(terms, center=pooled_mean(terms))


_SVCCA = partial(svcca, max_components=_SVCCA_SETTINGS["components"])
# By name: the summary that it compares, and how. Pairs of domains that share too few labels are NaN.
BASELINES: dict[str, tuple[str, Callable[[Sequence[Any]], Cosines]]] = {
    "token_frequency": ("label_counts", _pairs(token_frequency_cosine)),
    "mean_gradient": ("largest_errors", mean_gradient_cosines),
    "mean_gradient_centred": ("largest_errors", _centred),
    "diagonal_fisher": ("largest_errors", diagonal_fisher_cosines),
    "cka_label_means": ("label_means", _pairs(on_label_means(linear_cka))),
    "debiased_cka_label_means": ("label_means", _pairs(on_label_means(partial(linear_cka, debiased=True)))),
    "rsa_label_means": ("label_means", _pairs(on_label_means(rsa))),
    "svcca_label_means": (
        "label_means",
        _pairs(on_label_means(_SVCCA, min_labels=_SVCCA_SETTINGS["labels"])),
    ),
}


def summaries_of(baselines: Sequence[str]) -> list[str]:
    """Returns the kinds of summaries that some baselines need, in a fixed order."""
    return [kind for kind in SUMMARIES if kind in {BASELINES[name][0] for name in baselines}]


class SummaryConsumer:
    """Feeds a collector from a pass and writes its summary."""

    def __init__(self, kind: str) -> None:
        self._collector = SUMMARIES[kind].collector()

    def update(self, terms: HeadTerms) -> None:
        """Takes one block of terms."""
        self._collector.update(terms.activations, terms.errors, terms.labels)

    def save(self, path: Path) -> None:
        """Writes the summary: tensors alone, no pickle."""
        summary = self._collector.summary()
        values = {field.name: getattr(summary, field.name) for field in fields(summary)}
        path.write_bytes(save({name: torch.as_tensor(value).contiguous() for name, value in values.items()}))


def read_summary(kind: str, path: Path) -> Any:
    """Reads a summary that a `SummaryConsumer` wrote.

    Args:
        kind: Kind of summary.
        path: Its file.

    Returns:
        An instance of the kind's class.
    """
    tensors = load_file(path)
    whole = {name: tensor.item() if tensor.ndim == 0 else tensor for name, tensor in tensors.items()}
    return SUMMARIES[kind].content(**whole)


def summary_key(kind: str, windows: Sequence[str], origin: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what a summary depends on.

    Args:
        kind: Kind of summary.
        windows: Digests of the windows, part by part.
        origin: What activations and errors come from.
    """
    return {"summary": kind, "windows": list(windows), "provenance": dict(origin), "recipe": _RECIPE}


def baseline_matrices(
    names: Sequence[str],
    paths: Mapping[str, Sequence[Path]],
    keys: Mapping[str, Sequence[Mapping[str, Any]]],
    cache: ArtefactCache,
) -> dict[str, Cosines]:
    """Compares T domains by each baseline.

    Args:
        names: The baselines.
        paths: Files of the T summaries, by kind.
        keys: What these depend on, by kind.
        cache: Where matrices are kept.

    Returns:
        By name the matrix (T, T), NaN where a measure has no value, and how far errors that were not kept
        can move it.
    """
    read: dict[str, list[Any]] = {}
    matrices = {}
    for name in names:
        kind, compare = BASELINES[name]

        def make(path: Path, kind: str = kind, compare: Callable[[Sequence[Any]], Cosines] = compare) -> None:
            if kind not in read:
                read.clear()  # the largest errors of a hundred domains are 0.8 GB
                read[kind] = [read_summary(kind, file) for file in paths[kind]]
            found = compare(read[kind])
            np.savez(path, value=found.value.numpy(), error_bound=found.error_bound.numpy())

        key = {"baseline": name, "domains": list(keys[kind]), "recipe": _RECIPE}
        key |= _SVCCA_SETTINGS if name == "svcca_label_means" else {}
        with np.load(cache.get("baselines", key, make, ".npz"), allow_pickle=False) as arrays:
            matrices[name] = Cosines(*(torch.from_numpy(arrays[part]) for part in Cosines._fields))
    return matrices
