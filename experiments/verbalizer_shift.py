"""Rank verbalizers of a task as sources for each other: prompts stay, the words of the answers change."""

from dataclasses import dataclass

import numpy as np
import torch

from experiments.config import Config
from experiments.errors import UserError
from experiments.models.base import LoadedModel
from experiments.options import option, register
from experiments.progress import progress
from experiments.relabelling.shared_inputs import SharedInputs, shared_inputs
from experiments.scores import score_table
from experiments.store import Store
from experiments.verbalizers.estimators import ERRORS, alignment_scores, label_errors, label_free_scores
from experiments.verbalizers.mechanism import mechanism, swapped_scores
from experiments.verbalizers.prompts import Prompts, TaskConfig, answer_tokens, prompts_of
from experiments.verbalizers.truth import answer_gains


@register("settings", "verbalizer_shift")
@dataclass
class VerbalizerShiftConfig:
    """Tasks, the words that answer them, and which softmax errors are taken from."""

    tasks: dict[str, TaskConfig] = option(
        {}, "Binary tasks by name: two domains and the prompt around a text."
    )
    verbalizers: dict[str, list[str]] = option({}, "Pairs of words by name, one for each class.")
    errors: str = option(
        "vocabulary",
        "Softmax of the scores without a suffix: over the vocabulary, all verbalizers, or the own two words.",
        choices=ERRORS,
    )
    svcca_components: int = option(10, "At most so many singular directions in SVCCA.", min=1)

    def check(self, key: str) -> None:
        """Checks that there is something to rank.

        Raises:
            UserError: There is no task, or there are fewer than three verbalizers.
        """
        if not self.tasks:
            raise UserError(f"{key}.tasks: must name a task")
        if len(self.verbalizers) < 3:
            raise UserError(
                f"{key}.verbalizers: has {len(self.verbalizers)}; ranking sources needs at least 3"
            )


def run(cfg: Config, store: Store) -> None:
    """Scores the verbalizers of each task, fine-tunes on each, and compares.

    Args:
        cfg: The run's configuration.
        store: Where results go.

    Raises:
        UserError: Nothing is fine-tuned, or a task or a verbalizer does not fit the domains or the tokenizer.
    """
    settings: VerbalizerShiftConfig = cfg.settings
    if cfg.transfer.mode == "none":
        raise UserError("transfer.mode=none: the job needs gains; set transfer=head, lora or full")
    with store.timed("model"):
        loaded: LoadedModel = cfg.model.build(torch.device(cfg.device))
    tokens = answer_tokens(settings.verbalizers, loaded.tokenizer)
    with store.timed("domains"):
        data = cfg.domains.build(loaded.tokenizer)
    tasks = [prompts_of(name, task, data.domains, loaded.tokenizer) for name, task in settings.tasks.items()]
    by_task, swaps, identical = [], [], True
    with store.timed("scores"):
        for task in progress(tasks, "verbalizers"):
            first, last = (_answered(loaded, task, list(tokens.values())[place]) for place in (0, -1))
            identical &= torch.equal(first.activations, last.activations)
            inputs = first.double(loaded)
            by_task.append(_scores(settings, inputs, last.activations.double(), task, tokens))
            swaps.append(swapped_scores(inputs, task.train_classes, tokens))
    with store.timed("transfer"):
        losses = answer_gains(cfg.transfer, loaded, tasks, tokens)
    gains = losses["base"][:, None] - losses["tuned"]  # (S, Q, V, 2, V)
    gain, swapped_gain = (_blocks(gains[:, :, :, order]) for order in (0, 1))  # (S, T, T)
    names = [f"{task.name}/{name}" for task in tasks for name in tokens]
    groups = [task.name for task in tasks for _ in tokens]
    mask = np.equal.outer(groups, groups)
    estimators = {name: _blocks(np.stack([scores[name] for scores in by_task])) for name in by_task[0]}
    swapped = {name: np.concatenate([found[name] for found in swaps]) for name in swaps[0]}
    labels = {"names": names, "groups": groups}
    store.write_arrays("estimators", **labels, **estimators)
    store.write_arrays(
        "transfer", **labels, gain=gain, swapped_gain=swapped_gain, base_loss=losses["base"][:, 0].ravel()
    )
    store.write_arrays("swapped", **labels, **swapped)
    activation = estimators["activation"][mask & ~np.eye(len(names), dtype=bool)]
    store.write_metrics(
        {
            "model": cfg.model.name,
            "data": data.name,
            "domains": [domain.name for domain in data.domains],
            "sources": {domain.name: domain.source for domain in data.domains},
            "licences": {domain.name: domain.licence for domain in data.domains},
            "tasks": {task.name: len(task.train) for task in tasks},
            "verbalizers": {name: list(words) for name, words in settings.verbalizers.items()},
            "n_tokens": sum(len(task.train) for task in tasks),
            "seed": cfg.seed,
            "mode": cfg.transfer.mode,
            "activations_identical": identical,
            "activation_min": float(activation.min()),
            "activation_max": float(activation.max()),
            "base_loss": float(losses["base"][:, 0].mean()),
            "mechanism": mechanism(estimators, swapped, gain.mean(axis=0), swapped_gain.mean(axis=0), mask),
            "seconds": store.seconds,
        }
        | score_table(estimators, gain, mask)
    )


def _answered(loaded: LoadedModel, task: Prompts, pair: torch.Tensor) -> SharedInputs:
    answers = pair[task.train_classes][:, None]
    return shared_inputs(loaded, torch.cat([task.train, answers], dim=1), last_only=True)


def _scores(
    settings: VerbalizerShiftConfig,
    inputs: SharedInputs,
    repeated: torch.Tensor,
    task: Prompts,
    tokens: dict[str, torch.Tensor],
) -> dict[str, np.ndarray]:
    scores: dict[str, np.ndarray] = {}
    for kind in (settings.errors, *(kind for kind in ERRORS if kind != settings.errors)):
        suffix = "" if kind == settings.errors else f"_{kind}"
        found = alignment_scores(label_errors(inputs, task.train_classes, tokens, kind), inputs.activations)
        scores |= {
            f"{name}{suffix}": matrix for name, matrix in found.items() if not suffix or name != "activation"
        }
    return scores | label_free_scores(inputs, repeated, task.train_classes, tokens, settings.svcca_components)


def _blocks(parts: np.ndarray) -> np.ndarray:
    """Returns (..., Q V, Q V) with the tasks' matrices (..., Q, V, V) on the diagonal, 0 elsewhere."""
    *rest, tasks, size, _ = parts.shape
    whole = np.zeros((*rest, tasks * size, tasks * size))
    for q in range(tasks):
        place = slice(q * size, (q + 1) * size)
        whole[..., place, place] = parts[..., q, :, :]
    return whole
