"""Signatures of domains: streamed once, kept as sketch states, made into signatures when asked."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file

from experiments.config import EstimatorConfig
from experiments.domains.base import Domain
from experiments.models.base import LoadedModel
from experiments.progress import progress
from experiments.store import Store
from experiments.streaming import stream_terms
from experiments.tensors import digest
from fishersketch import FisherSketch, SketchSpec
from fishersketch.head import output_head


def sketch_spec(cfg: EstimatorConfig, loaded: LoadedModel, seed: int) -> SketchSpec:
    """Returns the recipe of a run's sketches."""
    head = output_head(loaded.model)
    return SketchSpec(
        activation_dim=head.in_features,
        error_dim=head.out_features,
        num_features=cfg.num_features,
        projection=cfg.projection,
        sample_unit=cfg.sample_unit,
        seed=seed,
        extra_streams=tuple(cfg.extra_streams),
    )


def provenance(cfg: EstimatorConfig, loaded: LoadedModel) -> dict[str, Any]:
    """Returns what activations and errors of a run come from: signatures compare only where it is equal."""
    labels = {"label_seed": cfg.label_seed} if cfg.label_mode == "model" else {}
    return {
        "model": loaded.fingerprint,
        "tokenizer": loaded.tokenizer_fingerprint,
        "label_mode": cfg.label_mode,
        **labels,
    }


def sketch_domains(
    cfg: EstimatorConfig, loaded: LoadedModel, domains: Sequence[Domain], seed: int, store: Store
) -> list[list[FisherSketch]]:
    """Streams the sketch windows of each domain, in one pass.

    The first `exact_windows` windows and the rest are sketched apart, since the first part is compared with
    the exact alignment as well; a domain's sketch is the two merged.

    Args:
        cfg: How.
        loaded: A causal language model.
        domains: The T domains.
        seed: Draws the projection.
        store: The run, for its cache.

    Returns:
        For each domain the sketches of its parts, one or two.
    """
    spec = sketch_spec(cfg, loaded, seed)
    return [
        [_part(cfg, loaded, spec, domain, part, store) for part in _parts(cfg, domain)]
        for domain in progress(domains, "sketch")
    ]


def merged(parts: Sequence[FisherSketch]) -> FisherSketch:
    """Returns the sketch of all parts; the parts stay as they are."""
    whole = FisherSketch(parts[0].spec, parts[0].provenance)
    for part in parts:
        whole.merge(part)
    return whole


def _parts(cfg: EstimatorConfig, domain: Domain) -> list[slice]:
    count = len(domain.sketch)
    cut = min(cfg.exact_windows, count)
    return [part for part in (slice(0, cut), slice(cut, count)) if part.start < part.stop]


def _part(
    cfg: EstimatorConfig, loaded: LoadedModel, spec: SketchSpec, domain: Domain, part: slice, store: Store
) -> FisherSketch:
    windows, origin = domain.sketch[part], provenance(cfg, loaded)

    def make(path: Path) -> None:
        sketch = FisherSketch(spec, origin)
        for terms in stream_terms(loaded, windows, part.start, cfg, domain.name):
            sketch.update(terms.activations, terms.errors, terms.group)
        tensors, header = sketch.state()
        save_file(tensors, path, metadata={"sketch": json.dumps(header)})

    key = {
        "windows": digest(windows),
        "parity": part.start % 2,
        "spec": spec.to_dict(),
        "provenance": origin,
        "recipe": FisherSketch.RECIPE,
    }
    return _read(store.cache.get("sketches", key, make, ".safetensors"))


def _read(path: Path) -> FisherSketch:
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        header = json.loads(file.metadata()["sketch"])
    return FisherSketch.from_state(load_file(path), header)
