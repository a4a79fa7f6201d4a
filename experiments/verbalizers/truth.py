"""What fine-tuning on one verbalizer does to the loss of every other, on the same prompts."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from experiments.errors import UserError
from experiments.finetuning.base import Tunable
from experiments.finetuning.opening import opened
from experiments.finetuning.train import Diverged, Schedule, train
from experiments.models.base import LoadedModel
from experiments.progress import progress_bar
from experiments.verbalizers.prompts import Prompts

_AT_ONCE = 16


class LastToken:
    """A tunable model whose only prediction is what follows a prompt.

    Args:
        tunable: The model.
    """

    def __init__(self, tunable: Tunable) -> None:
        self._tunable = tunable
        self.parameters = tunable.parameters
        self.reset = tunable.reset

    def encode(self, windows: torch.Tensor) -> torch.Tensor:
        """Returns the inputs of `logits` for prompts with one token after them (n, L + 1)."""
        inputs = self._tunable.encode(windows)
        return inputs[:, -1:] if inputs.is_floating_point() else inputs

    def logits(self, inputs: torch.Tensor) -> torch.Tensor:
        """Returns the logits (n, 1, K) of the token after the prompt."""
        return self._tunable.logits(inputs)[:, -1:]


def answer_gains(
    cfg: Any, loaded: LoadedModel, tasks: list[Prompts], tokens: Mapping[str, torch.Tensor]
) -> dict[str, np.ndarray]:
    """Fine-tunes on each verbalizer of each task and scores all verbalizers of that task.

    Args:
        cfg: A `TransferConfig`; its mode must train something.
        loaded: A causal language model; it is as before when this returns.
        tasks: The Q tasks.
        tokens: Token ids (2,) of each of V verbalizers.

    Returns:
        ``base`` losses (Q, 2, V) and ``tuned`` losses (S, Q, V, 2, V), [seed, task, source, order, target],
        mean nats over held-out prompts; order 1 scores the target with its two words swapped.

    Raises:
        UserError: A source diverges.
    """
    schedule = Schedule(cfg.learning_rate, cfg.weight_decay, cfg.batch_windows, cfg.epochs)
    count = len(tokens)
    base = np.empty((len(tasks), 2, count))
    tuned = np.empty((len(cfg.seeds), len(tasks), count, 2, count))
    total = len(cfg.seeds) * len(tasks) * count
    bar = progress_bar(f"answers ({cfg.mode})", total)
    with opened(cfg, loaded) as whole, bar as done:
        tunable = LastToken(whole)
        for q, task in enumerate(tasks):
            tunable.reset("", 0)
            inputs, held_out = (tunable.encode(_padded(part)) for part in (task.train, task.held_out))
            base[q] = _losses(tunable, held_out, task.held_out_classes, tokens, loaded.device)
            for s, seed in enumerate(cfg.seeds):
                for i, (name, pair) in enumerate(tokens.items()):
                    # The same order of prompts for every verbalizer: they differ in their words alone.
                    tunable.reset(task.name, seed)
                    try:
                        train(
                            tunable,
                            inputs,
                            pair[task.train_classes][:, None],
                            schedule,
                            label=task.name,
                            seed=seed,
                            at_once=_AT_ONCE,
                            device=loaded.device,
                        )
                    except Diverged as error:
                        raise UserError(
                            f"transfer.learning_rate={cfg.learning_rate:g}: {task.name} with {name}: {error}"
                        ) from error
                    tuned[s, q, i] = _losses(tunable, held_out, task.held_out_classes, tokens, loaded.device)
                    done.update()
        tunable.reset("", 0)
    return {"base": base, "tuned": tuned}


@torch.inference_mode()
def _losses(
    tunable: LastToken,
    inputs: torch.Tensor,
    classes: torch.Tensor,
    tokens: Mapping[str, torch.Tensor],
    device: torch.device,
) -> np.ndarray:
    """Returns mean losses (2, V): of every verbalizer, and of it with its words swapped."""
    parts = [tunable.logits(part.to(device))[:, 0].float().cpu() for part in inputs.split(_AT_ONCE)]
    log_p = torch.log_softmax(torch.cat(parts), dim=1)  # (n, K)
    rows = torch.arange(len(classes))
    losses = [
        [-float(log_p[rows, pair[order]].double().mean()) for pair in tokens.values()]
        for order in (classes, 1 - classes)
    ]
    return np.array(losses)


def _padded(prompts: torch.Tensor) -> torch.Tensor:
    # What is trained predicts a window's last column from those before it; its content is not looked at.
    return torch.nn.functional.pad(prompts, (0, 1))
