"""Sketches and summaries of domains: streamed once, kept in the cache, made into signatures when asked."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save

from experiments.baselines import SummaryConsumer, summaries_of, summary_key
from experiments.config import EstimatorConfig
from experiments.domains.base import Domain, DomainSet
from experiments.errors import NotFiniteDomain, UserError
from experiments.models.base import LoadedModel
from experiments.one_pass import Product, make_products
from experiments.progress import progress
from experiments.store import Store
from experiments.streaming import named, stream_terms
from experiments.tensors import digest
from fishersketch import FisherSketch, HeadTerms, SketchSpec, TaskSignature
from fishersketch.head import output_head

# Two windows that follow each other are of both halves, so that no block is needed to fill one.
BLOCK_WINDOWS = 2


@dataclass(frozen=True)
class Pass:
    """What one pass over the sketch windows of T domains gives.

    Attributes:
        sketches: For each domain the sketches of its parts, in order.
        blocks: For each domain the sketches of its blocks of windows, in order, for the error of sampling.
        summaries: Files of the domains' summaries for the baselines, by kind.
        summary_keys: What these depend on, by kind.
    """

    sketches: list[list[FisherSketch]]
    blocks: list[list[FisherSketch]]
    summaries: dict[str, list[Path]]
    summary_keys: dict[str, list[Mapping[str, Any]]]


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


def pass_over(
    cfg: EstimatorConfig, loaded: LoadedModel, domains: Sequence[Domain], seed: int, store: Store
) -> Pass:
    """Streams the sketch windows of each domain once, for the sketch and for the baselines.

    The first `exact_windows` windows and the rest are sketched apart, since the first part is compared with
    the exact alignment as well; a domain's sketch is the two merged. What the cache holds is not made again.

    Args:
        cfg: How, and for which baselines.
        loaded: A causal language model.
        domains: The T domains.
        seed: Draws the projection.
        store: The run, for its cache.

    Returns:
        The sketches and the summaries.

    Raises:
        UserError: A domain has too few windows for its self terms, or the model cannot be used on it.
    """
    spec, origin, kinds = sketch_spec(cfg, loaded, seed), provenance(cfg, loaded), summaries_of(cfg.baselines)
    found = Pass([], [], {kind: [] for kind in kinds}, {kind: [] for kind in kinds})
    for domain in progress(domains, "sketch"):
        if cfg.self_terms == "split" and len(domain.sketch) < 2:
            raise UserError(
                f"estimator.self_terms=split: domain {domain.name} has 1 sketch window, and each half "
                "needs one; raise domains.sketch_windows, or set estimator.self_terms=plain"
            )
        parts = _parts(cfg, domain)
        products = [
            Product(
                "sketches",
                _sketch_key(spec, origin, domain, part),
                part,
                partial(_SketchConsumer, spec, origin),
            )
            for part in parts
        ]
        digests = [digest(domain.sketch[part]) for part in parts]
        whole = slice(0, len(domain.sketch))
        for kind in kinds:
            key = summary_key(kind, digests, origin)
            products.append(Product("summaries", key, whole, partial(SummaryConsumer, kind)))
            found.summary_keys[kind].append(key)

        def stream(part: slice, domain: Domain = domain) -> Any:
            return stream_terms(loaded, domain.sketch[part], part.start, cfg, domain.name)

        with named(domain.name):
            paths = make_products(products, parts, stream, store.cache)
        blocks = [_read(path) for path in paths[: len(parts)]]
        found.sketches.append([merged(part) for part in blocks])
        found.blocks.append([block for part in blocks for block in part])
        for kind, path in zip(kinds, paths[len(parts) :], strict=True):
            found.summaries[kind].append(path)
    return found


def finite_domains(
    cfg: EstimatorConfig, loaded: LoadedModel, data: DomainSet, seed: int, store: Store
) -> DomainSet:
    """Returns the domains on which the model gives finite values; the others are left out with a warning.

    What `pass_over` makes on the way is in the cache.

    Args:
        cfg: How the domains will be sketched.
        loaded: A causal language model.
        data: The domains.
        seed: Draws the projection.
        store: The run, for its cache and log.

    Raises:
        UserError: None is left; gives the first reason.
    """
    reasons = {}
    for domain in data.domains:
        try:
            pass_over(cfg, loaded, [domain], seed, store)
        except NotFiniteDomain as error:
            reasons[domain.name] = str(error)
            store.log.warning("left out: %s", error)
    if len(reasons) == len(data.domains):
        raise UserError(next(iter(reasons.values())))
    return data.without(reasons)


def signatures_of(
    cfg: EstimatorConfig, loaded: LoadedModel, domains: Sequence[Domain], seed: int, store: Store
) -> list[TaskSignature]:
    """Returns the signatures of the sketch windows of each domain, by `pass_over`."""
    found = pass_over(cfg, loaded, domains, seed, store)
    return [merged(parts).signature(cfg.signature) for parts in found.sketches]


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


def _sketch_key(spec: SketchSpec, origin: Mapping[str, Any], domain: Domain, part: slice) -> dict[str, Any]:
    return {
        "windows": digest(domain.sketch[part]),
        "first_in_block": part.start % BLOCK_WINDOWS,
        "block_windows": BLOCK_WINDOWS,
        "spec": spec.to_dict(),
        "provenance": dict(origin),
        "recipe": FisherSketch.RECIPE,
    }


class _SketchConsumer:
    """Sketches each block of windows apart; a block is known by the numbers of its windows."""

    def __init__(self, spec: SketchSpec, origin: Mapping[str, Any]) -> None:
        self._spec, self._origin = spec, origin
        self._blocks: dict[int, FisherSketch] = {}

    def update(self, terms: HeadTerms) -> None:
        # Windows come in order, so that the rows of a block stand together.
        numbers, counts = (terms.group // BLOCK_WINDOWS).unique_consecutive(return_counts=True)
        start = 0
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            rows = slice(start, start + count)
            block = self._blocks.setdefault(number, FisherSketch(self._spec, self._origin))
            block.update(terms.activations[rows], terms.errors[rows], terms.group[rows])
            start += count

    def save(self, path: Path) -> None:
        tensors: dict[str, torch.Tensor] = {}
        headers = []
        for number, block in sorted(self._blocks.items()):
            state, header = block.state()
            tensors |= {f"{number:06}.{name}": tensor for name, tensor in state.items()}
            headers.append(header)
        path.write_bytes(save(tensors, metadata={"blocks": json.dumps(headers)}))


def _read(path: Path) -> list[FisherSketch]:
    with safe_open(path, framework="pt") as file:
        headers = json.loads(file.metadata()["blocks"])
    states: dict[str, dict[str, torch.Tensor]] = {}
    for name, tensor in load_file(path).items():
        number, part = name.split(".")
        states.setdefault(number, {})[part] = tensor
    return [
        FisherSketch.from_state(states[number], header)
        for number, header in zip(sorted(states), headers, strict=True)
    ]
