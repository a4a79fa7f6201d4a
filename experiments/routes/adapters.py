"""What every adapter makes of every input: losses of single tokens, kept in the cache."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from experiments.domains.base import Domain
from experiments.finetune import TransferConfig, with_train_windows
from experiments.finetuning.base import Tunable
from experiments.finetuning.opening import opened
from experiments.finetuning.source import fine_tune, scored
from experiments.finetuning.train import Schedule
from experiments.models.base import LoadedModel
from experiments.progress import progress
from experiments.store import Store
from experiments.tensors import digest


def adapter_losses(
    cfg: TransferConfig, loaded: LoadedModel, sources: Sequence[Domain], inputs: torch.Tensor, store: Store
) -> tuple[np.ndarray, np.ndarray]:
    """Fine-tunes on each source and scores every token of every input.

    Args:
        cfg: How; its mode must train something.
        loaded: A causal language model; it is as before when this returns.
        sources: The S sources.
        inputs: Token windows (N, W + 1).
        store: The run, for its cache.

    Returns:
        Losses (N, W) of the base model and (S, N, W) of the adapters, the mean over the seeds, in nats.

    Raises:
        UserError: A source diverges.
    """
    schedule = Schedule(cfg.learning_rate, cfg.weight_decay, cfg.batch_windows, cfg.epochs)
    tunables: list[Tunable] = []

    def losses_of(source: Domain | None, seed: int) -> np.ndarray:
        key = {
            "model": loaded.fingerprint,
            "inputs": digest(inputs),
            "precision": cfg.precision,
            "source": source and source.digest["train"],
            "transfer": source and cfg.settings(),
            "seed": seed,
        }

        def make(path: Path) -> None:
            tunable = tunables[0]
            tunable.reset(source.digest["train"] if source else "", seed)
            if source is not None:
                fine_tune(tunable, loaded, source, schedule, seed)
            np.savez(path, losses=scored(tunable, loaded, inputs))

        with np.load(store.cache.get("token_losses", key, make, ".npz"), allow_pickle=False) as arrays:
            return arrays["losses"].astype(np.float64)

    with opened(cfg, loaded) as tunable:
        tunables.append(tunable)
        base = losses_of(None, 0)
        tuned = [
            np.mean([losses_of(source, seed) for seed in cfg.seeds], axis=0)
            for source in progress(with_train_windows(cfg, sources), f"adapters ({cfg.mode})")
        ]
    return base, np.stack(tuned)
