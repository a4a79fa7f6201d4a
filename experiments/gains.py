"""Measured gains of a run: from fine-tuning here, or from a file of gains measured elsewhere."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import MISSING

from experiments.domains.base import Domain
from experiments.errors import UserError
from experiments.finetune import transfer_matrix
from experiments.models.base import LoadedModel
from experiments.options import option, register
from experiments.store import Store


@register("transfer", "csv")
@dataclass
class GainTable:
    """Gains measured elsewhere, in place of fine-tuning."""

    path: str = option(
        MISSING,
        "CSV file: names of the targets in the first row and of the sources in the first column, gains in "
        "nats/token between them; the diagonal may be empty.",
    )

    def read(self, names: Sequence[str], key: str = "transfer.path") -> np.ndarray:
        """Reads the gains of some domains; the file may hold others too.

        Args:
            names: The T domains.
            key: Dotted key of the path, for errors.

        Returns:
            Gains (T, T), [source, target], in nats/token; NaN on a diagonal that is empty.

        Raises:
            UserError: The file cannot be read or is no square table of numbers, or lacks a domain.
        """
        where = f"{key}={self.path}"
        try:
            with Path(self.path).open(newline="", encoding="utf-8-sig") as file:
                rows = [[cell.strip() for cell in row] for row in csv.reader(file) if any(row)]
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise UserError(f"{where}: cannot be read ({reason}); give a CSV file") from error
        targets, sources = (rows[0][1:] if rows else []), [row[0] for row in rows[1:]]
        if not targets or sorted(targets) != sorted(sources) or len(set(targets)) < len(targets):
            raise UserError(
                f"{where}: is not square: {len(sources)} sources and {len(targets)} targets, which must be "
                "the same names, each once; write targets into the first row, sources into the first column"
            )
        for name in names:
            if name not in targets:
                raise UserError(
                    f"{where}: has no domain {name!r}; add it, or leave it out with domains.include"
                )
        gains = np.full((len(names), len(names)), np.nan)
        for i, source in enumerate(names):
            row = rows[1 + sources.index(source)][1:]
            if len(row) != len(targets):
                raise UserError(f"{where}: row {source!r} has {len(row)} gains for {len(targets)} targets")
            for j, target in enumerate(names):
                gains[i, j] = _number(row[targets.index(target)], where, source, target)
        return gains


def _number(cell: str, where: str, source: str, target: str) -> float:
    if source == target and not cell:
        return float("nan")
    try:
        value = float(cell)
    except ValueError:
        value = float("nan")
    if source != target and not np.isfinite(value):
        raise UserError(f"{where}: gain of {source!r} to {target!r} is {cell!r}; give a number in nats/token")
    return value


@dataclass(frozen=True)
class Gains:
    """What a run's scores are held against.

    Attributes:
        gain: Gains (S, T, T), [seed, source, target], in nats/token.
        half_gains: Gains (2, T, T) on two halves of the held-out windows, where they are known.
        losses: What ``arrays/transfer.npz`` holds beside the gains, by name: ``base_loss`` (T,) and
            ``tuned_loss`` (S, T, T), in nats/token, where they are known.
    """

    gain: np.ndarray
    half_gains: np.ndarray | None = None
    losses: dict[str, np.ndarray] = field(default_factory=dict)


def measured_gains(cfg: Any, loaded: LoadedModel, domains: Sequence[Domain], store: Store) -> Gains | None:
    """Returns the gains that a run's transfer config asks for.

    Args:
        cfg: A `GainTable`, or the `TransferConfig` of `experiments.finetune`.
        loaded: A causal language model.
        domains: The T domains.
        store: The run.

    Returns:
        The gains, None for ``transfer=none``.
    """
    if isinstance(cfg, GainTable):
        return Gains(cfg.read([domain.name for domain in domains])[None])
    if cfg.mode == "none":
        return None
    matrix = transfer_matrix(cfg, loaded, domains, store)
    losses = {"base_loss": matrix.base_loss.mean(-1), "tuned_loss": matrix.tuned_loss.mean(-1)}
    return Gains(matrix.gain, matrix.half_gains, losses)
