"""Trains a model on one source from wherever it is, and scores single tokens."""

import numpy as np
import torch

from experiments.domains.base import Domain
from experiments.errors import UserError
from experiments.finetuning.base import Tunable
from experiments.finetuning.losses import token_losses, windows_at_once
from experiments.finetuning.train import Diverged, Schedule, train
from experiments.models.base import LoadedModel


def fine_tune(tunable: Tunable, loaded: LoadedModel, source: Domain, schedule: Schedule, seed: int) -> None:
    """Trains on a source's windows, from wherever the model is.

    Args:
        tunable: The model; its inputs must be token ids.
        loaded: What it was made from.
        source: Whose windows.
        schedule: How long and how fast.
        seed: Orders the windows.

    Raises:
        UserError: The loss is no longer finite.
    """
    try:
        train(
            tunable,
            source.train[:, :-1],
            source.train[:, 1:],
            schedule,
            label=source.digest["train"],
            seed=seed,
            at_once=windows_at_once(source.train.shape[1] - 1, loaded.vocabulary_size, loaded.device),
            device=loaded.device,
        )
    except Diverged as error:
        raise UserError(
            f"transfer.learning_rate={schedule.learning_rate:g}: fine-tuning diverged on {source.name} "
            f"(seed {seed}): {error}; lower the rate, or leave it out"
        ) from error


@torch.inference_mode()
def scored(tunable: Tunable, loaded: LoadedModel, windows: torch.Tensor) -> np.ndarray:
    """Returns the losses (N, W) float32 of every predicted token of windows (N, W + 1), in nats."""
    at_once = windows_at_once(windows.shape[1] - 1, loaded.vocabulary_size, loaded.device)
    parts = [
        token_losses(tunable.logits, part[:, :-1].to(loaded.device), part[:, 1:].to(loaded.device)).cpu()
        for part in windows.split(at_once)
    ]
    return torch.cat(parts).numpy()
