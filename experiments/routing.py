"""Sends each input to the adapter whose source's signature fits it best, and measures what that is worth."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from experiments.config import Config
from experiments.domains.base import DomainSet
from experiments.errors import UserError
from experiments.exact import as_arrays
from experiments.facts import run_facts
from experiments.finetune import TransferConfig
from experiments.options import option, register
from experiments.routes.adapters import adapter_losses
from experiments.routes.routers import picks, signature_scores, token_overlap
from experiments.scores import interval
from experiments.signatures import finite_domains, signatures_of
from experiments.store import Store
from fishersketch import align

_LABEL_MODES = ("data", "model")


@register("settings", "routing")
@dataclass
class RoutingConfig:
    """What of an input the router sees."""

    prompt_tokens: int = option(
        32, "Predicted tokens of a window that the router sees; losses are those of the others.", min=2
    )
    label_modes: list[str] = option(
        ["data", "model"],
        "Labels of the signatures: the prompt's own next tokens (data), or drawn from the model (model).",
        choices=_LABEL_MODES,
    )

    def check(self, key: str) -> None:
        """Checks the label modes.

        Raises:
            UserError: When data is not among them, or one is named twice.
        """
        if "data" not in self.label_modes or len(set(self.label_modes)) < len(self.label_modes):
            raise UserError(f"{key}.label_modes={self.label_modes}: must be [data] or [data,model]")


def run(cfg: Config, store: Store) -> None:
    """Sketches sources and prompts, fine-tunes an adapter on each source, and scores every route.

    An input is a held-out window. Routers see its prompt alone; its completion is what losses are taken of.

    Args:
        cfg: The run's configuration.
        store: Where results go.

    Raises:
        UserError: Nothing is fine-tuned, there are fewer than two sources, or a window has no completion.
    """
    settings: RoutingConfig = cfg.settings
    if not isinstance(cfg.transfer, TransferConfig) or cfg.transfer.mode not in ("lora", "full"):
        raise UserError("transfer: job=routing needs a tuned model a source; choose lora or full")
    with store.timed("model"):
        loaded = cfg.model.build(torch.device(cfg.device))
    with store.timed("domains"):
        data: DomainSet = cfg.domains.build(loaded.tokenizer)
    with store.timed("sketch"):
        data = finite_domains(cfg.estimator, loaded, data, cfg.seed, store)
    sources = data.domains
    if len(sources) < 2:
        raise UserError(f"domains={data.name}: has {len(sources)} domain; a route needs at least 2")
    inputs = torch.cat([source.held_out for source in sources])  # (N, W + 1)
    home = np.repeat(np.arange(len(sources)), [len(source.held_out) for source in sources])
    cut = settings.prompt_tokens
    if cut >= inputs.shape[1] - 1:
        raise UserError(
            f"settings.prompt_tokens={cut}: leaves no completion; must be below "
            f"domains.window_tokens={inputs.shape[1] - 1}"
        )
    prompts = inputs[:, : cut + 1]
    scores: dict[str, np.ndarray] = {}
    with store.timed("sketch"):
        for mode in settings.label_modes:
            estimator = replace(cfg.estimator, label_mode=mode)
            signatures = signatures_of(estimator, loaded, sources, cfg.seed, store)
            if mode == "data":
                table = align(signatures, cfg.estimator.self_terms)
            scores |= signature_scores(estimator, loaded, signatures, prompts, cfg.seed)
    scores["token_frequency"] = token_overlap(prompts, sources, loaded.vocabulary_size)
    with store.timed("adapters"):
        base, tuned = adapter_losses(cfg.transfer, loaded, sources, inputs, store)
    # An upper bound on what the prompt tells: every adapter is run on it.
    scores["prompt_loss"] = -tuned[:, :, :cut].mean(-1).T
    labels = {"names": [source.name for source in sources], "groups": [source.group for source in sources]}
    groups = np.array(labels["groups"])
    chosen = picks(scores)
    completion, base_completion = tuned[:, :, cut:].mean(-1), base[:, cut:].mean(-1)  # (S, N), (N,)
    store.write_arrays("alignments", **labels, **as_arrays(table))
    store.write_arrays(
        "routing",
        **labels,
        home=home,
        routers=list(chosen),
        picks=np.stack(list(chosen.values())),
        completion_loss=completion,
        base_completion_loss=base_completion,
        **{f"scores_{name}": matrix for name, matrix in scores.items()},
    )
    metrics = run_facts(cfg, data, table) | {
        "n": len(inputs),
        "prompt_tokens": cut,
        "completion_tokens": inputs.shape[1] - 1 - cut,
        "mode": cfg.transfer.mode,
        "n_seeds": len(cfg.transfer.seeds),
    }
    metrics |= _accuracy(chosen, home, groups) | _losses(chosen, home, completion, base_completion, labels)
    store.write_metrics(metrics | {"seconds": store.seconds})


def _accuracy(chosen: dict[str, np.ndarray], home: np.ndarray, groups: np.ndarray) -> dict[str, Any]:
    """Returns the share of inputs that go to the adapter of their own domain, and of their own group."""
    hits = {name: (pick == home).astype(float) for name, pick in chosen.items()}
    count = len(groups)
    return {
        "accuracy": {name: hit.mean() for name, hit in hits.items()} | {"random": 1 / count},
        "accuracy_interval": {name: interval(hit, seed=0) for name, hit in hits.items()},
        "group_accuracy": {name: (groups[pick] == groups[home]).mean() for name, pick in chosen.items()}
        | {"random": np.mean([(groups == groups[own]).mean() for own in home])},
    }


def _losses(
    chosen: dict[str, np.ndarray],
    home: np.ndarray,
    completion: np.ndarray,
    base: np.ndarray,
    labels: dict[str, list[str]],
) -> dict[str, Any]:
    """Returns loss and perplexity of the completions on every route, and the routes against one adapter."""
    rows = np.arange(completion.shape[1])
    single = int(completion.mean(axis=1).argmin())
    losses = {
        "always_base": base,
        "best_single": completion[single],
        "random": completion.mean(axis=0),
        "own_domain": completion[home, rows],
        "oracle": completion.min(axis=0),
    }
    losses |= {name: completion[pick, rows] for name, pick in chosen.items()}
    ends = {name: interval(values, seed=0) for name, values in losses.items()}
    against = {
        rival: {
            name: {
                "mean": float((values - losses[rival]).mean()),
                "interval": interval(values - losses[rival], seed=0),
            }
            for name, values in losses.items()
            if name != rival
        }
        for rival in ("always_base", "best_single")
    }
    return {
        "best_single": labels["names"][single],
        "loss": {name: float(values.mean()) for name, values in losses.items()},
        "loss_interval": ends,
        "perplexity": {name: float(np.exp(values.mean())) for name, values in losses.items()},
        "perplexity_interval": {name: [float(np.exp(end)) for end in pair] for name, pair in ends.items()},
        "loss_against": against,
    }
