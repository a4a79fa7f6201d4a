"""Beyond the head: alignments of inner layers and of the whole network, and what approximations leave out."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from experiments.config import Config
from experiments.domains.base import DomainSet
from experiments.errors import UserError
from experiments.gains import Gains, measured_gains
from experiments.models.images import LoadedImageModel
from experiments.network.exact import by_depth, parameter_kernels
from experiments.network.layers import LayerPass, layer_pass
from experiments.network.samples import SampledTask, head_name, image_tasks, text_tasks, untie
from experiments.scores import interval, score_table, selected_score
from experiments.scoring.agreement import STATISTICS, agreement, task_interval
from experiments.scoring.targets import mean, target_scores
from experiments.store import Store
from fishersketch.network_alignment import NetworkAlignment, network_alignment

_RESAMPLES = 1000


def run(cfg: Config, store: Store) -> None:
    """Sketches every layer, compares with the exact network, tests independence and scores against gains.

    Args:
        cfg: The run's configuration.
        store: Where results go.

    Raises:
        UserError: The model, the tasks and the settings do not fit each other.
    """
    _check(cfg)
    with store.timed("model"):
        loaded = cfg.model.build(torch.device(cfg.device))
    data: DomainSet | None = None
    with store.timed("tasks"):
        if isinstance(loaded, LoadedImageModel):
            tasks = image_tasks(cfg, loaded)
        else:
            data = cfg.domains.build(loaded.tokenizer)
            tasks = text_tasks(cfg, loaded, data)
    if len(tasks) < 4:
        raise UserError(f"domains: {len(tasks)} tasks; correlations over pairs need at least 4")
    labels = {"names": [task.name for task in tasks], "groups": [task.group for task in tasks]}
    gains: Gains | None = None
    if data is not None:
        with store.timed("transfer"):
            gains = measured_gains(cfg.transfer, loaded, data.domains, store)
    untie(loaded)
    head = head_name(loaded)
    metrics: dict[str, Any] = {
        "model": cfg.model.name,
        "data": cfg.domains.name,
        "domains": labels["names"],
        "groups": {task.name: task.group for task in tasks},
        "seed": cfg.seed,
        "self_terms": cfg.estimator.self_terms,
        "n_samples": sum(len(task.samples) for task in tasks),
        "samples_per_task": cfg.settings.samples,
        "head": head,
    }
    with store.timed("layers"):
        found = layer_pass(cfg, loaded, tasks)
    names = [name for name in found.alignments if name != "network"]
    metrics |= {
        "n_layers": len(names),
        "sketch": {"num_features": cfg.estimator.num_features, "state_bytes": found.state_bytes},
        "independence": _independence(found, cfg.settings.permutations),
    }
    store.write_arrays(
        "independence",
        **labels,
        layers=names,
        squared_gap=found.squared_gap,
        null_high=found.null_high,
        p=found.p,
    )
    store.write_arrays(
        "layers",
        **labels,
        layers=names,
        alignments=np.stack([found.alignments[name] for name in names]),
        network=found.alignments["network"],
    )
    scores = {"network_sketch": found.alignments["network"]}
    if head in found.alignments:
        scores |= {"head_sketch": found.alignments[head]}
    if cfg.settings.exact:
        with store.timed("exact"):
            kernels = parameter_kernels(cfg, loaded, tasks, store)
        more, exact = _exact(cfg, store, tasks, kernels, found, head, labels)
        metrics |= more
        scores |= exact
    if gains is not None:
        store.write_arrays("transfer", **labels, gain=gains.gain, **gains.losses)
        scores["random"] = np.zeros_like(scores["network_sketch"])
        metrics |= score_table(scores, gains.gain, half_gains=gains.half_gains, reference="network_sketch")
        metrics |= _layers_against_gains(store, found, names, gains, labels)
    store.write_arrays("estimators", **labels, **scores)
    store.write_metrics(metrics | {"seconds": store.seconds})


def _check(cfg: Config) -> None:
    if cfg.estimator.projection == "hadamard":
        raise UserError(
            "estimator.projection=hadamard: its pairs of one vector are correlated, so that layers cannot be "
            "summed; choose block_hadamard or rademacher"
        )
    if cfg.estimator.label_mode != "data":
        raise UserError(f"estimator.label_mode={cfg.estimator.label_mode}: job=network_fisher takes data")


def _exact(
    cfg: Config,
    store: Store,
    tasks: list[SampledTask],
    kernels: Mapping[str, torch.Tensor],
    found: LayerPass,
    head: str,
    labels: dict[str, list[str]],
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Writes the exact alignments.

    Returns:
        Metrics of what tracks them, and the alignments by name.
    """
    counts = [len(task.samples) for task in tasks]
    task = torch.arange(len(tasks)).repeat_interleave(torch.tensor(counts))
    half = torch.cat([torch.arange(count) % 2 for count in counts])
    linear = {name: kernels[f"{name}.weight"] for name in found.alignments if name != "network"}
    blocks = by_depth(kernels)

    def of(parts: Mapping[str, torch.Tensor], self_terms: str) -> NetworkAlignment:
        return network_alignment(parts, task, half, self_terms)

    tables = {
        "parameters": of(kernels, cfg.estimator.self_terms),
        "depth": of(blocks, cfg.estimator.self_terms),
    }
    of_linear = of(linear, cfg.estimator.self_terms)
    whole = tables["parameters"].network.numpy()
    exact = {
        "network": whole,
        "linear_layers": of_linear.network.numpy(),
        "block_diagonal": tables["parameters"].block_diagonal.numpy(),
        "depth_diagonal": tables["depth"].block_diagonal.numpy(),
        "head": of({head: kernels[f"{head}.weight"]}, cfg.estimator.self_terms).network.numpy(),
    }
    metrics: dict[str, Any] = {"n_parameters": len(kernels), "agreement": {}}
    pairs = {name: (exact[name], whole) for name in exact if name != "network"}
    pairs["network_sketch"] = (found.alignments["network"], exact["linear_layers"])
    if head in found.alignments:
        pairs["head_sketch"] = (found.alignments[head], exact["head"])
    for name, (estimate, truth) in pairs.items():
        metrics["agreement"][name] = _agreement(estimate, truth)
    metrics["spearman_head"] = metrics["agreement"]["head"]["spearman"]
    metrics["spearman_head_interval"] = metrics["agreement"]["head"]["spearman_interval"]
    arrays: dict[str, np.ndarray] = {}
    # The bounds are of the matrices of these samples, whose norms are plain.
    for kind, parts in (("parameters", kernels), ("depth", blocks)):
        plain = of(parts, "plain")
        metrics[f"decomposition_{kind}"] = _decomposition(plain)
        arrays |= {
            f"{kind}_names": np.array(plain.names),
            f"{kind}_profiles": plain.profiles.numpy(),
            f"{kind}_profile_cosine": plain.profile_cosine.numpy(),
            f"{kind}_discrepancy": plain.discrepancy.numpy(),
            f"{kind}_lower": plain.lower.numpy(),
            f"{kind}_upper": plain.upper.numpy(),
            f"{kind}_network_plain": plain.network.numpy(),
            f"{kind}_block_diagonal_plain": plain.block_diagonal.numpy(),
            f"{kind}_blocks": tables[kind].blocks.numpy(),
        }
    metrics["profile_cosine"] = metrics["decomposition_depth"]["profile_cosine"]["mean"]
    metrics["off_diagonal_discrepancy"] = metrics["decomposition_depth"]["discrepancy"]["mean"]
    store.write_arrays("network", **labels, **exact, **arrays)
    return metrics, exact


def _agreement(estimate: np.ndarray, truth: np.ndarray) -> dict[str, Any]:
    above = np.triu_indices(len(truth), 1)
    values = agreement(estimate[above], truth[above])
    ends = task_interval(estimate[None], truth, seed=0, resamples=_RESAMPLES)
    found: dict[str, Any] = dict(zip(STATISTICS, values.tolist(), strict=True))
    return found | {f"{name}_interval": ends[:, place].tolist() for place, name in enumerate(STATISTICS)}


def _decomposition(table: NetworkAlignment) -> dict[str, Any]:
    above = np.triu_indices(len(table.network), 1)
    network = table.network.numpy()[above]
    low, high = table.lower.numpy()[above], table.upper.numpy()[above]
    pairs = {"profile_cosine": table.profile_cosine, "discrepancy": table.discrepancy}
    found: dict[str, Any] = {
        name: {
            "mean": float(values.numpy()[above].mean()),
            "min": float(values.numpy()[above].min()),
            "max": float(values.numpy()[above].max()),
        }
        for name, values in pairs.items()
    }
    own = table.discrepancy.diagonal()
    return found | {
        "own_discrepancy": {"mean": float(own.mean()), "min": float(own.min()), "max": float(own.max())},
        "bound_width": float((high - low).mean()),
        "bounds_held": float(((network >= low - 1e-9) & (network <= high + 1e-9)).mean()),
    }


def _independence(found: LayerPass, permutations: int) -> dict[str, Any]:
    """Returns how often independence is refused; p is of single tests, none corrected for their number."""
    gap = np.sqrt(np.clip(found.squared_gap, 0, None))
    return {
        "tests": int(found.p.size),
        "permutations": permutations,
        "rejected_at_5_percent": float((found.p <= 0.05).mean()),
        "above_all_permutations": float((found.p <= 1 / (1 + permutations) + 1e-12).mean()),
        "median_gap": float(np.median(gap)),
        "median_null_gap": float(np.median(np.sqrt(np.clip(found.null_high, 0, None)))),
    }


def _layers_against_gains(
    store: Store, found: LayerPass, names: list[str], gains: Gains, labels: dict[str, list[str]]
) -> dict[str, Any]:
    """Writes each layer's scores against the gains.

    Returns:
        The best layer, chosen on other targets than those it is reported on.
    """
    truth = gains.gain.mean(0)
    of = [target_scores(found.alignments[name], truth) for name in names]
    store.write_arrays(
        "layers_against_gains",
        layers=names,
        spearman=[mean(one.spearman) for one in of],
        spearman_interval=[interval(one.spearman, seed=0) for one in of],
        top1=[mean(one.top1) for one in of],
        mean_regret=[mean(one.regret) for one in of],
    )
    chosen = selected_score(found.alignments, gains.gain, reference="network", sums=False)
    return {"selected_layer": chosen}
