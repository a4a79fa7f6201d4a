"""Rank sources for every target by Fisher alignment, and score the ranking against fine-tuning."""

from typing import Any

import torch

from experiments.config import Config
from experiments.domains.base import DomainSet
from experiments.errors import UserError
from experiments.exact import as_arrays, exact_alignment
from experiments.finetune import transfer_matrix
from experiments.scores import score_table
from experiments.scoring.sketch_error import sketch_error
from experiments.signatures import merged, sketch_domains
from experiments.store import Store
from fishersketch import Alignment, align

_SCORED = ("joint", "activation", "error", "coupling")


def run(cfg: Config, store: Store) -> None:
    """Sketches the domains, compares with the exact alignment, fine-tunes the sources and scores.

    Args:
        cfg: The run's configuration.
        store: Where results go.

    Raises:
        UserError: There are fewer than three domains, so that no source can be ranked against another.
    """
    with store.timed("model"):
        loaded = cfg.model.build(torch.device(cfg.device))
    with store.timed("domains"):
        data: DomainSet = cfg.domains.build(loaded.tokenizer)
    if len(data.domains) < 3:
        raise UserError(
            f"domains={data.name}: has {len(data.domains)} domains; ranking sources needs at least 3"
        )
    with store.timed("sketch"):
        parts = sketch_domains(cfg.estimator, loaded, data.domains, cfg.seed, store)
        sketches = [merged(part) for part in parts]
        signatures = [sketch.signature(cfg.estimator.signature) for sketch in sketches]
        table = align(signatures, cfg.estimator.self_terms)
    metrics = _facts(cfg, data, table)
    metrics["n_tokens"] = sum(sketch.num_tokens for sketch in sketches)
    metrics["n_tokens_per_domain"] = {
        domain.name: sketch.num_tokens for domain, sketch in zip(data.domains, sketches, strict=True)
    }
    metrics["sketch"] = {
        "state_bytes": sketches[0].state_bytes,
        "signature_bytes": signatures[0].signature_bytes,
        "above_one": table.above_one,
        "undefined": table.undefined,
    }
    labels = {
        "names": [domain.name for domain in data.domains],
        "groups": [domain.group for domain in data.domains],
    }
    tokens = [sketch.num_tokens for sketch in sketches]
    store.write_arrays("alignments", **labels, n_tokens=tokens, **as_arrays(table))
    store.write_arrays("overlap", **labels, overlap=data.overlap)
    _save_signatures(store, labels["names"], signatures)
    if cfg.estimator.exact_windows:
        with store.timed("exact"):
            truth = exact_alignment(cfg.estimator, loaded, data.domains, store)
        first = align(
            [part[0].signature(cfg.estimator.signature) for part in parts], cfg.estimator.self_terms
        )
        tokens = [part[0].num_tokens for part in parts]
        store.write_arrays("exact", **labels, n_tokens=tokens, **as_arrays(truth))
        store.write_arrays("sketch_on_exact", **labels, n_tokens=tokens, **as_arrays(first))
        metrics["sketch"] |= sketch_error(as_arrays(first), as_arrays(truth)) | {
            "exact_n_tokens": sum(tokens)
        }
    if cfg.transfer.mode != "none":
        with store.timed("transfer"):
            transfer = transfer_matrix(cfg.transfer, loaded, data.domains, store)
        store.write_arrays(
            "transfer",
            **labels,
            gain=transfer.gain,
            base_loss=transfer.base_loss.mean(-1),
            tuned_loss=transfer.tuned_loss.mean(-1),
        )
        scores = {name: getattr(table, name).numpy() for name in _SCORED}
        store.write_arrays("estimators", **labels, **scores)
        with store.timed("scores"):
            metrics |= score_table(scores, transfer.gain)
    store.write_metrics(metrics | {"seconds": store.seconds})


def _facts(cfg: Config, data: DomainSet, table: Alignment) -> dict[str, Any]:
    return {
        "model": cfg.model.name,
        "data": data.name,
        "domains": [domain.name for domain in data.domains],
        "groups": {domain.name: domain.group for domain in data.domains},
        "sources": {domain.name: domain.source for domain in data.domains},
        "licences": {domain.name: domain.licence for domain in data.domains},
        "dropped_spans": data.dropped,
        "seed": cfg.seed,
        "self_terms": table.self_terms,
    }


def _save_signatures(store: Store, names: list[str], signatures: list) -> None:
    folder = store.folder / "signatures"
    folder.mkdir()
    for name, signature in zip(names, signatures, strict=True):
        signature.save(folder / f"{name}.safetensors")
