"""Rank sources for every target by Fisher alignment, and score the ranking against fine-tuning."""

from typing import Any

import numpy as np
import torch

from experiments.baselines import baseline_matrices
from experiments.config import Config, EstimatorConfig
from experiments.domains.base import DomainSet
from experiments.errors import UserError
from experiments.exact import as_arrays, exact_alignment
from experiments.facts import run_facts
from experiments.files import file_stems
from experiments.gains import Gains, measured_gains
from experiments.scores import score_sections, selected_score, sibling_mask
from experiments.scoring.sketch_error import sketch_error
from experiments.signatures import BLOCK_WINDOWS, Pass, finite_domains, merged, pass_over
from experiments.store import Store
from fishersketch import TaskSignature, align, align_stream, relabelled_joint, stderr_sampling

_SCORED = ("joint", "activation", "error", "coupling")
# The sketched stream has its own name beside the baseline of the same quantity.
_STREAMS = {"unit_joint": "unit_joint", "mean_gradient": "mean_gradient_sketch"}
# Not from one pass over the sketch windows, so no candidates for a chosen training-free score.
_NOT_CHOSEN = ("exact_on_first_windows", "random")
_FEWEST_TARGETS_TO_CHOOSE = 4


def run(cfg: Config, store: Store) -> None:
    """Sketches the domains, compares with baselines and the exact alignment, fine-tunes and scores.

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
    _refuse_few(data)
    with store.timed("sketch"):
        data = finite_domains(cfg.estimator, loaded, data, cfg.seed, store)
        _refuse_few(data)
        found = pass_over(cfg.estimator, loaded, data.domains, cfg.seed, store)
        sketches = [merged(part) for part in found.sketches]
        signatures = [sketch.signature(cfg.estimator.signature) for sketch in sketches]
        table = align(signatures, cfg.estimator.self_terms)
    metrics = run_facts(cfg, data, table) | {"siblings": data.siblings}
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
    with store.timed("stderr_sampling"):
        sampling = _stderr_sampling(cfg.estimator, data, found, store)
    store.write_arrays("alignments", **labels, n_tokens=tokens, stderr_sampling=sampling, **as_arrays(table))
    if "weighted_activation" in cfg.estimator.extra_streams:
        unrelated = relabelled_joint(signatures, cfg.estimator.self_terms).numpy()
        store.write_arrays("unrelated", **labels, joint=unrelated)
    store.write_arrays("overlap", **labels, overlap=data.overlap)
    _save_signatures(store, labels["names"], signatures)
    scores = {name: getattr(table, name).numpy() for name in _SCORED}
    scores |= _stream_scores(cfg.estimator, signatures)
    with store.timed("baselines"):
        metrics["baselines"] = _compare_baselines(cfg.estimator, found, store, scores)
    if cfg.estimator.exact_windows:
        with store.timed("exact"):
            truth = exact_alignment(cfg.estimator, loaded, data.domains, store)
        first = align(
            [part[0].signature(cfg.estimator.signature) for part in found.sketches],
            cfg.estimator.self_terms,
        )
        tokens = [part[0].num_tokens for part in found.sketches]
        store.write_arrays("exact", **labels, n_tokens=tokens, **as_arrays(truth))
        store.write_arrays("sketch_on_exact", **labels, n_tokens=tokens, **as_arrays(first))
        metrics["sketch"] |= sketch_error(as_arrays(first), as_arrays(truth)) | {
            "exact_n_tokens": sum(tokens)
        }
        scores["exact_on_first_windows"] = truth.joint.numpy()
    with store.timed("transfer"):
        measured = measured_gains(cfg.transfer, loaded, data.domains, store)
    if measured is not None:
        store.write_arrays("transfer", **labels, gain=measured.gain, **measured.losses)
        with store.timed("scores"):
            metrics |= _score(scores, measured, data)
    store.write_arrays("estimators", **labels, **scores)
    store.write_metrics(metrics | {"seconds": store.seconds})


def _refuse_few(data: DomainSet) -> None:
    if len(data.domains) < 3:
        why = "".join(f"; {reason}" for reason in data.not_finite.values())
        raise UserError(
            f"domains={data.name}: has {len(data.domains)} domains; ranking sources needs at least 3{why}"
        )


def _stderr_sampling(cfg: EstimatorConfig, data: DomainSet, found: Pass, store: Store) -> np.ndarray:
    """Returns the (T, T) errors from the tokens drawn; NaN where a domain has too few windows for blocks."""
    if min(len(domain.sketch) for domain in data.domains) < 2 * BLOCK_WINDOWS:
        store.log.warning(
            "stderr_sampling is undefined: domains.sketch_windows is below %d", 2 * BLOCK_WINDOWS
        )
        return np.full((len(data.domains), len(data.domains)), np.nan)
    return stderr_sampling(found.blocks, cfg.self_terms).numpy()


def _stream_scores(cfg: EstimatorConfig, signatures: list[TaskSignature]) -> dict[str, np.ndarray]:
    return {
        _STREAMS[name]: align_stream(signatures, name, cfg.self_terms).numpy()
        for name in cfg.extra_streams
        if name in _STREAMS
    }


def _compare_baselines(
    cfg: EstimatorConfig, found: Pass, store: Store, scores: dict[str, np.ndarray]
) -> dict[str, Any]:
    """Adds the baselines' matrices to the scores.

    Returns:
        By baseline, the pairs without a value and the largest bound on what errors not kept can change.
    """
    about = {}
    for name, cosines in baseline_matrices(
        cfg.baselines, found.summaries, found.summary_keys, store.cache
    ).items():
        scores[name] = cosines.value.numpy()
        about[name] = {
            "undefined": int(torch.isnan(cosines.value).triu(1).sum()),
            "error_bound": float(cosines.error_bound.max()),
        }
    return about


def _score(scores: dict[str, np.ndarray], measured: Gains, data: DomainSet) -> dict[str, Any]:
    """Returns the metrics of the scores, to which it adds the source's base loss and a random pick."""
    count = len(data.domains)
    if "base_loss" in measured.losses:
        scores["source_loss"] = np.tile(measured.losses["base_loss"][:, None], (1, count))
    scores["random"] = np.zeros((count, count))
    names, groups = [d.name for d in data.domains], [d.group for d in data.domains]
    no_siblings = sibling_mask(names, data.siblings, data.overlap)
    metrics = score_sections(scores, measured.gain, groups, no_siblings, measured.half_gains)
    if count >= _FEWEST_TARGETS_TO_CHOOSE:
        offered = {name: matrix for name, matrix in scores.items() if name not in _NOT_CHOSEN}
        metrics["selected_score"] = selected_score(offered, measured.gain)
    return metrics


def _save_signatures(store: Store, names: list[str], signatures: list[TaskSignature]) -> None:
    folder = store.folder / "signatures"
    folder.mkdir()
    for stem, signature in zip(file_stems(names), signatures, strict=True):
        signature.save(folder / f"{stem}.safetensors")
