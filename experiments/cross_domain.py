"""Does alignment follow the perplexity that fine-tuning on one corpus takes off another, over all pairs?"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from experiments.baselines import baseline_matrices
from experiments.config import Config
from experiments.domains.base import DomainSet
from experiments.errors import UserError
from experiments.exact import as_arrays, exact_alignment
from experiments.facts import run_facts
from experiments.finetune import TransferConfig, TransferMatrix, transfer_matrix
from experiments.options import option, register
from experiments.scores import score_table, within_groups
from experiments.scoring.perplexity import perplexity_reductions, resampled_reductions
from experiments.scoring.readings import every_subset, per_target, reading
from experiments.scoring.sketch_error import sketch_error
from experiments.signatures import finite_domains, merged, pass_over
from experiments.store import Store
from fishersketch import align, align_stream

# Tuning that costs a window more than this, in nats/token, has broken something: the record names the window.
_BROKEN = 1.0
_FACTORS = ("joint", "activation", "error", "coupling")


@register("settings", "cross_domain")
@dataclass
class CrossDomainConfig:
    """Which corpora a smaller reading has, and how intervals are made."""

    subset: list[str] = option([], "Corpora of a smaller reading; every other choice of as many is made too.")
    resamples: int = option(2000, "Draws of held-out windows for the intervals.", min=100)

    def check(self, key: str) -> None:
        """Checks the size of the subset.

        Raises:
            UserError: For one or two corpora, or one named twice.
        """
        if len(self.subset) in (1, 2) or len(set(self.subset)) < len(self.subset):
            raise UserError(f"{key}.subset={self.subset}: must be none, or three or more different domains")


def run(cfg: Config, store: Store) -> None:
    """Sketches the corpora, fine-tunes on each, and correlates alignment with perplexity reduction.

    Args:
        cfg: The run's configuration.
        store: Where results go.

    Raises:
        UserError: Transfer gives no losses of windows, there are fewer than four corpora, or the subset names
            one that is not there.
    """
    settings: CrossDomainConfig = cfg.settings
    if not isinstance(cfg.transfer, TransferConfig) or cfg.transfer.mode == "none":
        raise UserError("transfer: job=cross_domain needs held-out losses; choose full, lora or head")
    with store.timed("model"):
        loaded = cfg.model.build(torch.device(cfg.device))
    with store.timed("domains"):
        data: DomainSet = cfg.domains.build(loaded.tokenizer)
    with store.timed("sketch"):
        data = finite_domains(cfg.estimator, loaded, data, cfg.seed, store)
    names = [domain.name for domain in data.domains]
    subset = _places(settings.subset, names)
    if len(names) < 4:
        raise UserError(f"domains={data.name}: has {len(names)} domains; correlations need at least 4")
    labels = {"names": names, "groups": [domain.group for domain in data.domains]}
    with store.timed("sketch"):
        found = pass_over(cfg.estimator, loaded, data.domains, cfg.seed, store)
        sketches = [merged(parts) for parts in found.sketches]
        signatures = [sketch.signature(cfg.estimator.signature) for sketch in sketches]
        table = align(signatures, cfg.estimator.self_terms)
    scores = {name: getattr(table, name).numpy() for name in _FACTORS}
    with store.timed("baselines"):
        baselines = baseline_matrices(
            cfg.estimator.baselines, found.summaries, found.summary_keys, store.cache
        )
    scores |= {name: cosines.value.numpy() for name, cosines in baselines.items()}
    for name in cfg.estimator.extra_streams:
        # The sketched stream has its own name beside the baseline of the same quantity.
        key = f"{name}_sketch" if name in scores else name
        scores[key] = align_stream(signatures, name, cfg.estimator.self_terms).numpy()
    tokens = [sketch.num_tokens for sketch in sketches]
    store.write_arrays("alignments", **labels, n_tokens=tokens, **as_arrays(table))
    metrics = run_facts(cfg, data, table) | {"left_out_documents": data.left_out} | {"n_tokens": sum(tokens)}
    metrics["n_tokens_per_domain"] = dict(zip(names, tokens, strict=True))
    if cfg.estimator.exact_windows:
        with store.timed("exact"):
            truth = as_arrays(exact_alignment(cfg.estimator, loaded, data.domains, store))
        store.write_arrays("exact", **labels, **truth)
        scores |= {f"exact_{name}": truth[name] for name in _FACTORS}
        first = [parts[0].signature(cfg.estimator.signature) for parts in found.sketches]
        metrics["sketch"] = sketch_error(as_arrays(align(first, cfg.estimator.self_terms)), truth)
        metrics["sketch"]["exact_n_tokens"] = sum(parts[0].num_tokens for parts in found.sketches)
    with store.timed("transfer"):
        transfer = transfer_matrix(cfg.transfer, loaded, data.domains, store)
    store.write_arrays(
        "transfer",
        **labels,
        gain=transfer.gain,
        base_loss=transfer.base_loss.mean(-1),
        tuned_loss=transfer.tuned_loss.mean(-1),
        base_loss_windows=transfer.base_loss,
        tuned_loss_windows=transfer.tuned_loss,
    )
    perplexity = np.exp(transfer.base_loss.mean(-1))
    # What one end of a pair tells by itself: a target with much to lose loses much, whatever the source.
    scores["target_perplexity"] = np.tile(perplexity, (len(names), 1))
    scores["source_perplexity"] = scores["target_perplexity"].T
    store.write_arrays("estimators", **labels, **scores)
    with store.timed("scores"):
        metrics |= _scored(scores, transfer, labels["groups"])
        metrics |= _correlated(scores, transfer, subset, settings, store)
    store.write_metrics(metrics | {"subset": settings.subset, "seconds": store.seconds})


def _places(subset: list[str], names: list[str]) -> list[int]:
    for name in subset:
        if name not in names:
            raise UserError(f"settings.subset: there is no domain {name!r}; known: {', '.join(names)}")
    return [names.index(name) for name in subset]


def _scored(scores: dict[str, np.ndarray], transfer: TransferMatrix, groups: list[str]) -> dict[str, Any]:
    """Returns what source selection says of the same matrices, in nats/token, and correlations by target."""
    metrics = score_table(scores, transfer.gain, half_gains=transfer.half_gains)
    # The correlations over all pairs are those with perplexity, under "correlation".
    metrics = {key: value for key, value in metrics.items() if not key.startswith("matrix_")}
    mask = within_groups(groups)
    if mask.sum(axis=0).min() >= 2:
        inner = score_table(scores, transfer.gain, mask)
        metrics["within_groups"] = {key: inner[key] for key in ("top1", "random_top1", "mean_spearman")}
    found = per_target(scores, transfer.gain.mean(axis=0))
    metrics["spearman_per_target"] = {
        name: dict(zip(transfer.names, values.tolist(), strict=True)) for name, values in found.items()
    }
    metrics["broken_windows"] = _broken_windows(transfer)
    metrics["base_perplexity"] = dict(
        zip(transfer.names, np.exp(transfer.base_loss.mean(-1)).tolist(), strict=True)
    )
    return metrics


def _broken_windows(transfer: TransferMatrix) -> list[dict[str, Any]]:
    """Returns the held-out windows that tuning made much worse; they stay in every mean."""
    worse = transfer.tuned_loss - transfer.base_loss > _BROKEN  # (S, T, T, W)
    return [
        {
            "seed_index": int(seed),
            "source": transfer.names[source],
            "target": transfer.names[target],
            "window": int(window),
            "base_loss": float(transfer.base_loss[target, window]),
            "tuned_loss": float(transfer.tuned_loss[seed, source, target, window]),
        }
        for seed, source, target, window in np.argwhere(worse)
    ]


def _correlated(
    scores: dict[str, np.ndarray],
    transfer: TransferMatrix,
    subset: list[int],
    settings: CrossDomainConfig,
    store: Store,
) -> dict[str, Any]:
    truths = perplexity_reductions(transfer.base_loss, transfer.tuned_loss)
    resampled = resampled_reductions(
        transfer.base_loss, transfer.tuned_loss, seed=0, resamples=settings.resamples
    )
    store.write_arrays("perplexity", names=transfer.names, **truths)
    readings = {"all": list(range(len(transfer.names)))} | ({"subset": subset} if subset else {})
    correlation, sweep = {}, {}
    for diagonal in (False, True):
        ending = "_with_diagonal" if diagonal else ""
        for name, members in readings.items():
            correlation[name + ending] = reading(scores, truths, resampled, members, diagonal=diagonal)
        if subset:
            choices, found = every_subset(scores, truths["absolute"], len(subset), diagonal=diagonal)
            columns = {f"{key}_{name}": row[key] for name, row in found.items() for key in row}
            members_of = np.array(transfer.names)[choices]
            store.write_arrays(f"subsets{ending}", members=members_of, **columns)
            sweep["subsets" + ending] = {name: _spread(row) for name, row in found.items()}
    return {"correlation": correlation} | sweep


def _spread(row: dict[str, np.ndarray]) -> dict[str, Any]:
    rho = row["spearman"]
    return {
        "choices": len(rho),
        "spearman_least": float(rho.min()),
        "spearman_median": float(np.median(rho)),
        "spearman_most": float(rho.max()),
        "share_p_spearman_below_0.05": float(np.mean(row["p_spearman"] < 0.05)),
        "share_p_mantel_below_0.05": float(np.mean(row["p_mantel"] < 0.05)),
    }
