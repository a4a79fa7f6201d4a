"""Sends a finished run to Weights & Biases: its config, metrics, tables and figures.

Nothing is sent while a job runs: the run folder is the record, and a logger shows a copy of it.
"""

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from experiments.errors import UserError
from experiments.options import join, option, register


@register("logger", "wandb")
@dataclass
class LoggerConfig:
    """Where a copy of a finished run goes."""

    mode: str = option(
        "disabled",
        "disabled, offline (wandb files in the run folder, `wandb sync` sends them) or online.",
        choices=("disabled", "offline", "online"),
    )
    project: str = option("fishersketch", "Project of the runs.")
    entity: str | None = option(None, "User or team; null: the account's default.")
    group: str | None = option(None, "Group that the run belongs to, for sweeps.")
    name: str | None = option(None, "Name of the run; null: the name of its folder.")
    tags: list[str] = option([], "Tags of the run.")

    def prepare(self) -> None:
        """Checks before the job that an online run has an account to go to.

        Raises:
            UserError: When there is none.
        """
        if self.mode != "online":
            return
        import wandb

        if not wandb.login(prompt=False):
            raise UserError(
                "logger.mode=online: no wandb account; run `wandb login` or use logger.mode=offline"
            )

    def send(self, folder: Path) -> None:
        """Logs a run folder.

        Args:
            folder: A finished run folder.

        Raises:
            UserError: When wandb refuses it.
        """
        if self.mode == "disabled":
            return
        import wandb

        try:
            with wandb.init(
                project=self.project,
                entity=self.entity,
                group=self.group,
                name=self.name or folder.name,
                tags=self.tags,
                mode="offline" if self.mode == "offline" else "online",
                dir=str(folder),
                config=yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8")),
                settings=wandb.Settings(silent=True, console="off", disable_git=True),
            ) as run:
                run.log(numbers(json.loads((folder / "metrics.json").read_text(encoding="utf-8"))))
                for path in sorted(folder.glob("tables/*.csv")):
                    header, *rows = csv.reader(path.read_text(encoding="utf-8").splitlines())
                    table = wandb.Table(columns=list(header), data=list(rows))
                    run.log({f"tables/{path.stem}": table})
                for path in sorted(folder.glob("figures/*.png")):
                    run.log({f"figures/{path.stem}": wandb.Image(str(path))})
        except wandb.Error as error:
            reason = str(error).splitlines()[0]
            raise UserError(f"logger.mode={self.mode}: {reason}; the run is finished, in {folder}") from error


def numbers(metrics: Mapping[str, Any], key: str = "") -> dict[str, float]:
    """Returns the numbers of nested metrics under dotted names.

    >>> numbers({"top1": {"joint": 0.5, "random": None}, "model": "smollm2", "n_tokens": 64})
    {'top1.joint': 0.5, 'n_tokens': 64}
    """
    found: dict[str, float] = {}
    for name, value in metrics.items():
        if isinstance(value, Mapping):
            found |= numbers(value, join(key, name))
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found[join(key, name)] = value
    return found
