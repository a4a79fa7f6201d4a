"""Makes the rows of a transfer matrix that are missing, one source and one seed at a time."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from experiments.domains.base import Domain
from experiments.errors import UserError
from experiments.finetuning.base import Tunable
from experiments.finetuning.losses import window_losses, windows_at_once
from experiments.finetuning.rows import Losses, Rows
from experiments.finetuning.train import Diverged, Schedule, train
from experiments.models.base import LoadedModel


@dataclass(frozen=True, eq=False)
class Row:
    """One row to make.

    Attributes:
        source: The domain to fine-tune on; None for the base model.
        seed: Fine-tuning seed.
        key: All that the row's losses depend on, but for the targets.
    """

    source: Domain | None
    seed: int
    key: dict[str, Any]


class Fill:
    """Fine-tunes on sources and scores targets, with one tunable model for all.

    Args:
        tunable: The model.
        loaded: What it was made from.
        domains: The targets, whose windows all have the same length.
        rows: Where rows are kept.
        schedule: How long and how fast to train.

    Attributes:
        failures: What went wrong with the sources that diverged, a few words each.
    """

    def __init__(
        self, tunable: Tunable, loaded: LoadedModel, domains: Sequence[Domain], rows: Rows, schedule: Schedule
    ) -> None:
        self.failures: list[str] = []
        self._tunable = tunable
        self._loaded = loaded
        self._targets = {domain.digest["held_out"]: domain for domain in domains}
        self._rows = rows
        self._schedule = schedule
        window_tokens = domains[0].held_out.shape[1] - 1
        self._at_once = windows_at_once(window_tokens, loaded.vocabulary_size, loaded.device)
        self._inputs: dict[str, torch.Tensor] = {}

    def run(self, pending: Sequence[Row]) -> Iterator[tuple[Row, Losses]]:
        """Makes rows, and leaves those that another process is at for the end.

        Args:
            pending: The rows.

        Yields:
            Each row with the losses of every target, or with none when its source diverged.

        Raises:
            UserError: When the base model's loss on a target is not finite.
        """
        queue = deque((row, False) for row in pending)
        while queue:
            row, wait = queue.popleft()
            with self._rows.claimed(row.key, wait) as ours:
                if not ours:
                    queue.append((row, True))
                    continue
                held = self._rows.read(row.key)
                missing = [digest for digest in self._targets if digest not in held]
                try:
                    losses = held | (self._made(row, missing) if missing else {})
                except Diverged as error:
                    self.failures.append(f"{row.source and row.source.name} (seed {row.seed}): {error}")
                    losses = {}
                else:
                    self._rows.keep(row.key, losses)
            yield row, losses

    def _made(self, row: Row, missing: Sequence[str]) -> Losses:
        label = "" if row.source is None else row.source.digest["train"]
        self._tunable.reset(label, row.seed)
        if row.source is not None:
            inputs, labels = self._tunable.encode(row.source.train), row.source.train[:, 1:]
            train(
                self._tunable,
                inputs,
                labels,
                self._schedule,
                label=label,
                seed=row.seed,
                at_once=self._at_once,
                device=self._loaded.device,
            )
        losses = self._scored(missing)
        for digest, found in losses.items():
            if not np.isfinite(found).all():
                name = self._targets[digest].name
                if row.source is None:
                    raise UserError(
                        f"{name}: its held-out loss under {self._loaded.name} is not finite; leave it out"
                    )
                raise Diverged(f"its held-out loss on {name} is not finite")
        return losses

    def _scored(self, digests: Sequence[str]) -> Losses:
        for digest in digests:
            if digest not in self._inputs:
                self._inputs[digest] = self._tunable.encode(self._targets[digest].held_out)
        counts = [len(self._targets[digest].held_out) for digest in digests]
        losses = window_losses(
            self._tunable.logits,
            torch.cat([self._inputs[digest] for digest in digests]),
            torch.cat([self._targets[digest].held_out[:, 1:] for digest in digests]),
            self._at_once,
            self._loaded.device,
        )
        return {d: part.numpy() for d, part in zip(digests, losses.split(counts), strict=True)}
