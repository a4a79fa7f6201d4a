"""Fine-tunes one model on tasks one after the other, in many orders that share their beginnings."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import torch

from experiments.domains.base import Domain
from experiments.finetune import TransferConfig
from experiments.finetuning.base import Tunable
from experiments.finetuning.opening import opened
from experiments.finetuning.source import fine_tune, scored
from experiments.finetuning.train import Schedule
from experiments.models.base import LoadedModel
from experiments.progress import progress_bar
from experiments.store import Store

Order = tuple[int, ...]


@dataclass(frozen=True)
class SequenceLosses:
    """Held-out losses of T tasks along O orders, the mean over fine-tuning seeds, in nats/token.

    Attributes:
        base: (T, W), [task, window], before anything is trained.
        after: (O, T, W), right after the task itself was trained on.
        final: (O, T, W), after the last task.
    """

    base: np.ndarray
    after: np.ndarray
    final: np.ndarray


def sequence_losses(
    cfg: TransferConfig, loaded: LoadedModel, tasks: Sequence[Domain], orders: Sequence[Order], store: Store
) -> SequenceLosses:
    """Trains along every order, as far as the cache lacks it.

    A model is trained once on each beginning that orders share. The optimiser starts anew at every task.

    Args:
        cfg: How; its mode must train the model itself or adapters.
        loaded: A causal language model; it is as before when this returns.
        tasks: The T tasks, all with as many held-out windows.
        orders: O different orders of ``range(T)``.
        store: The run, for its cache.

    Returns:
        The losses.

    Raises:
        UserError: Training diverges.
    """
    with opened(cfg, loaded) as tunable:
        walk = _Walk(cfg, loaded, tasks, tunable, store)
        tunable.reset("", 0)
        base = np.stack([walk.losses(task) for task in tasks])
        found = [walk.along(orders, seed) for seed in cfg.seeds]
    after, final = (np.mean([[row[o][part] for o in orders] for row in found], axis=0) for part in (0, 1))
    return SequenceLosses(base, after, final)


class _Walk:
    def __init__(
        self,
        cfg: TransferConfig,
        loaded: LoadedModel,
        tasks: Sequence[Domain],
        tunable: Tunable,
        store: Store,
    ) -> None:
        self._cfg, self._loaded, self._tasks, self._tunable, self._store = cfg, loaded, tasks, tunable, store
        self._schedule = Schedule(cfg.learning_rate, cfg.weight_decay, cfg.batch_windows, cfg.epochs)

    def losses(self, task: Domain) -> np.ndarray:
        """Returns the mean loss (W,) of each held-out window."""
        return scored(self._tunable, self._loaded, task.held_out).mean(axis=1, dtype=np.float64)

    def along(self, orders: Sequence[Order], seed: int) -> dict[Order, np.ndarray]:
        """Returns losses (2, T, W) by order: right after each task, and at the end."""
        keys = {order: self._key(order, seed) for order in orders}
        pending = sorted(o for o in orders if self._store.cache.find("sequences", keys[o], ".npz") is None)
        if pending:
            self._tunable.reset("sequence", seed)
            with progress_bar(f"sequences (seed {seed})", len(pending)) as bar:
                self._branch(pending, (), {}, seed, bar)
        found = {}
        for order, key in keys.items():
            path = self._store.cache.find("sequences", key, ".npz")
            assert path is not None
            with np.load(path, allow_pickle=False) as arrays:
                found[order] = np.stack([arrays["after"], arrays["final"]])
        return found

    def _branch(
        self, orders: Sequence[Order], done: Order, after: dict[int, np.ndarray], seed: int, bar: Any
    ) -> None:
        """Trains on what follows a beginning; the model is as that beginning left it."""
        start = [parameter.detach().clone() for parameter in self._tunable.parameters]
        for task, following in groupby(orders, key=lambda order: order[len(done)]):
            self._restore(start)
            fine_tune(self._tunable, self._loaded, self._tasks[task], self._schedule, seed)
            now = after | {task: self.losses(self._tasks[task])}
            rest = list(following)
            if len(now) < len(self._tasks):
                self._branch(rest, (*done, task), now, seed, bar)
            else:
                self._keep(rest[0], now, seed)
                bar.update()

    def _keep(self, order: Order, after: dict[int, np.ndarray], seed: int) -> None:
        final = np.stack([self.losses(task) for task in self._tasks])

        def make(path: Path) -> None:
            np.savez(path, after=np.stack([after[task] for task in range(len(after))]), final=final)

        self._store.cache.get("sequences", self._key(order, seed), make, ".npz")

    @torch.no_grad()
    def _restore(self, start: Sequence[torch.Tensor]) -> None:
        for parameter, value in zip(self._tunable.parameters, start, strict=True):
            parameter.copy_(value)

    def _key(self, order: Order, seed: int) -> dict[str, Any]:
        return {
            "model": self._loaded.fingerprint,
            "transfer": self._cfg.settings(),
            "seed": seed,
            "train": [self._tasks[task].digest["train"] for task in order],
            "held_out": [task.digest["held_out"] for task in self._tasks],
        }
