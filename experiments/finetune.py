"""The transfer matrix: what fine-tuning on each domain does to the held-out loss of every other.

gain[i, j] = held-out loss of target j under the base model minus under the model fine-tuned on source i, in
nats per token. A row (one source, one seed) is kept once it is there: a run that is killed goes on from it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from experiments.domains.base import Domain
from experiments.errors import UserError
from experiments.finetuning.fill import Fill, Row
from experiments.finetuning.opening import opened
from experiments.finetuning.rows import Losses, Rows
from experiments.finetuning.train import Schedule
from experiments.models.base import LoadedModel
from experiments.options import option, register
from experiments.progress import progress
from experiments.store import Store


@register("transfer", "finetune")
@dataclass
class TransferConfig:
    """How each source is fine-tuned on."""

    mode: str = option(
        "full",
        "What is trained: every parameter, adapters, a copy of the output head, or nothing (all gains 0).",
        choices=("full", "lora", "head", "none"),
    )
    learning_rate: float = option(2e-5, "Learning rate of AdamW, the same at every step.", min=0)
    weight_decay: float = option(0.0, "Weight decay of AdamW.", min=0)
    batch_windows: int = option(4, "Windows a step.", min=1)
    epochs: int = option(1, "Passes over the fine-tuning windows.", min=1)
    seeds: list[int] = option([0], "Fine-tuning seeds: order of the windows, and the adapters' start.", min=0)
    precision: str = option(
        "float32",
        "Precision of matrix products, in training and in scoring (torch.autocast); what is trained and its "
        "losses stay in float32.",
        choices=("float32", "bfloat16"),
    )
    lora_rank: int = option(8, "Rank of the adapters, for mode=lora.", min=1)
    lora_alpha: int = option(16, "Scale of the adapters times their rank, for mode=lora.", min=0)
    train_windows: int | None = option(
        None, "Fine-tune on the first so many windows of each source; null for all.", min=1
    )
    rows: str | None = option(
        None, "Folder of rows kept with a record of results: read first, and given all that this run uses."
    )

    def check(self, key: str) -> None:
        """Checks the seeds.

        Raises:
            UserError: When there is none, or one twice.
        """
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise UserError(f"{key}.seeds={self.seeds}: must be one seed or more, each once")

    def settings(self) -> dict[str, Any]:
        """Returns what a row depends on besides model, source and seed."""
        names = ["mode", "learning_rate", "weight_decay", "batch_windows", "epochs", "precision"]
        names += ["lora_rank", "lora_alpha"] if self.mode == "lora" else []
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class TransferMatrix:
    """Held-out losses before and after fine-tuning, in nats/token.

    Attributes:
        names: Names of the T domains.
        base_loss: Loss of every held-out window under the base model, (T, W) float64, [target, window].
        tuned_loss: The same after fine-tuning, (S, T, T, W) float64, [seed, source, target, window].
    """

    names: list[str]
    base_loss: np.ndarray
    tuned_loss: np.ndarray

    @property
    def gain(self) -> np.ndarray:
        """Gains (S, T, T), [seed, source, target]: base minus tuned loss, each the mean over windows."""
        return (self.base_loss - self.tuned_loss).mean(axis=-1)

    @property
    def half_gains(self) -> np.ndarray:
        """Gains (2, T, T) on the even and on the odd held-out windows, each the mean over seeds."""
        by_window = (self.base_loss - self.tuned_loss).mean(axis=0)  # (T, T, W)
        return np.stack([by_window[..., half::2].mean(axis=-1) for half in (0, 1)])


def transfer_matrix(
    cfg: TransferConfig, loaded: LoadedModel, domains: Sequence[Domain], store: Store
) -> TransferMatrix:
    """Fine-tunes on every domain in turn and scores all, as far as the cache and the record lack it.

    Args:
        cfg: How.
        loaded: A causal language model; it is as before when this returns.
        domains: The T domains, each a source and a target; all have equally many held-out windows.
        store: The run, for its cache and its log.

    Returns:
        The losses.

    Raises:
        UserError: When the base model has no finite loss on a domain, a source diverges (the other rows are
            finished first, and kept), a source has fewer windows than asked for, or the model cannot be
            fine-tuned in this mode.
    """
    domains = with_train_windows(cfg, domains)
    rows = Rows(store.cache.root / "transfer_rows", Path(cfg.rows) if cfg.rows else None)
    held_out = [domain.digest["held_out"] for domain in domains]
    base = _base_row(cfg, loaded)
    tuned = [_tuned_row(cfg, loaded, d, seed) for seed in cfg.seeds for d in domains if cfg.mode != "none"]
    found = {row: rows.complete(row.key, held_out) for row in (base, *tuned)}
    kept = {row: losses for row, losses in found.items() if losses is not None}
    pending = [row for row in found if row not in kept]
    if pending:
        store.log.info("%d of %d rows of the transfer matrix are to be made", len(pending), len(found))
        kept |= _filled(cfg, loaded, domains, rows, pending)
    base_loss, shape = _stacked(kept[base], held_out), (len(cfg.seeds), len(domains), len(domains), -1)
    if cfg.mode == "none":
        tuned_loss = np.tile(base_loss, (len(cfg.seeds), len(domains), 1, 1))
    else:
        tuned_loss = np.stack([_stacked(kept[row], held_out) for row in tuned]).reshape(shape)
    return TransferMatrix([domain.name for domain in domains], base_loss, tuned_loss)


def with_train_windows(cfg: TransferConfig, domains: Sequence[Domain]) -> list[Domain]:
    """Returns the domains with the fine-tuning windows that `train_windows` asks for.

    Raises:
        UserError: A domain has fewer.
    """
    if cfg.train_windows is None:
        return list(domains)
    return [_shortened(domain, cfg.train_windows) for domain in domains]


def _shortened(domain: Domain, windows: int) -> Domain:
    if windows > len(domain.train):
        raise UserError(
            f"transfer.train_windows={windows}: {domain.name} has {len(domain.train)}; "
            "raise domains.train_windows"
        )
    return replace(domain, train=domain.train[:windows])


def _base_row(cfg: TransferConfig, loaded: LoadedModel) -> Row:
    # Losses through a float32 copy of the head differ from the model's own when that is in half precision.
    path = "head" if cfg.mode == "head" else "model"
    transfer = {"mode": "none", "path": path, "precision": cfg.precision}
    return Row(None, 0, {"model": loaded.fingerprint, "transfer": transfer})


def _tuned_row(cfg: TransferConfig, loaded: LoadedModel, source: Domain, seed: int) -> Row:
    key = {
        "model": loaded.fingerprint,
        "source": source.digest["train"],
        "transfer": cfg.settings(),
        "seed": seed,
    }
    return Row(source, seed, key)


def _filled(
    cfg: TransferConfig, loaded: LoadedModel, domains: Sequence[Domain], rows: Rows, pending: Sequence[Row]
) -> dict[Row, Losses]:
    schedule = Schedule(cfg.learning_rate, cfg.weight_decay, cfg.batch_windows, cfg.epochs)
    with opened(cfg, loaded) as tunable:
        fill = Fill(tunable, loaded, domains, rows, schedule)
        made = dict(progress(fill.run(pending), f"transfer ({cfg.mode})", total=len(pending)))
    if fill.failures:
        raise UserError(
            f"transfer.learning_rate={cfg.learning_rate:g}: with transfer.mode={cfg.mode}, "
            f"fine-tuning diverged on {'; '.join(fill.failures)}; lower the rate, or leave them out"
        )
    return made


def _stacked(losses: Losses, held_out: Sequence[str]) -> np.ndarray:
    return np.stack([losses[digest] for digest in held_out]).astype(np.float64)
