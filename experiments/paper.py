"""Runs the experiments of the paper that a profile still lacks: ``python -m experiments.paper PROFILE``.

``make paper PROFILE=cpu`` calls it, and then ``python -m analysis report``.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from experiments.command_line import guarded
from experiments.config import Config, compose_run
from experiments.errors import UserError
from experiments.options import build_typed, option

ROOT = Path(__file__).resolve().parent.parent
PROFILES = ROOT / "conf" / "paper.yaml"
RECORDS = "results"
STORE = "runs/paper"
# Where a run goes and what it runs on make no other run of it.
_ELSEWHERE = ("store", "logger", "device")


@dataclass
class Profile:
    """One way to run the paper's experiments."""

    needs_gpu: bool = option(False, "Whether its models are too large for a CPU.")
    runs: dict[str, list[str]] = option({}, "Overrides of each experiment, in the order they are run.")


@dataclass(frozen=True)
class Run:
    """One experiment of a profile, composed.

    Attributes:
        experiment: its name.
        overrides: what the profile changes in it.
        settings: the resolved config.
        cfg: the same as dataclasses.
    """

    experiment: str
    overrides: list[str]
    settings: dict[str, Any]
    cfg: Config


def main(arguments: Sequence[str], profiles: Path = PROFILES, folder: Path = ROOT) -> None:
    """Runs what is missing, one experiment after the other, and stops at the first that fails.

    Args:
        arguments: The profile's name.
        profiles: File of the profiles.
        folder: Where the records and the run store are.

    Raises:
        UserError: There is no such profile, something it needs is out of reach, or a run failed.
    """
    known = yaml.safe_load(profiles.read_text(encoding="utf-8"))
    name = " ".join(arguments)
    if name not in known:
        raise UserError(f"PROFILE={name}: must be one of {', '.join(known)}, as make paper PROFILE=cpu")
    profile = build_typed(Profile, known[name], name)
    store = folder / STORE / name
    store.mkdir(parents=True, exist_ok=True)
    runs = [Run(e, list(o), *compose_run([f"experiment={e}", *o])) for e, o in profile.runs.items()]
    pending = []
    for run in runs:
        held = held_in(run, [folder / RECORDS, store])
        if held is None:
            pending.append(run)
        else:
            print(f"{run.experiment}: is in {held.relative_to(folder)}", flush=True)
    if pending:
        _require(profile, name, pending)
    for place, run in enumerate(pending, 1):
        line = [sys.executable, "run.py", f"experiment={run.experiment}", *run.overrides, f"store={store}"]
        print(f"{run.experiment}: run {place} of {len(pending)}", flush=True)
        code = subprocess.run(line, cwd=ROOT).returncode
        if code:
            raise UserError(
                f"experiment={run.experiment}: failed with exit code {code}, for the reason above; "
                f"make paper PROFILE={name} goes on from here"
            )


def held_in(run: Run, folders: Sequence[Path]) -> Path | None:
    """Returns the finished run of an experiment with the same settings, if one of some folders holds it.

    A setting that only one of the two configs has, as one that came later, makes no difference. Smoke runs
    are no results.

    Args:
        run: The experiment.
        folders: Records or run stores.
    """
    for folder in folders:
        for manifest, settings in _finished(folder):
            if agree(settings, run.settings):
                return manifest.parent
    return None


def agree(held: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Returns whether two resolved configs have the same values wherever both have one.

    >>> agree({"seed": 0, "store": "a"}, {"seed": 0, "store": "b", "new": 1})
    True
    """
    for name in (held.keys() & wanted.keys()) - set(_ELSEWHERE):
        mine, other = held[name], wanted[name]
        if isinstance(mine, Mapping) and isinstance(other, Mapping) and name != "entries":
            if not agree(mine, other):
                return False
        elif mine != other:
            return False
    return True


def _finished(folder: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    for manifest in sorted(folder.rglob("manifest.json")):
        about = json.loads(manifest.read_text(encoding="utf-8"))
        if about.get("status") == "finished" and not about.get("smoke"):
            settings = (manifest.parent / "config.yaml").read_text(encoding="utf-8")
            yield manifest, yaml.safe_load(settings)


def _require(profile: Profile, name: str, pending: Sequence[Run]) -> None:
    """Asks for all that the runs need before the first of them begins: it may be hours until it is used.

    Raises:
        UserError: Something is out of reach.
    """
    for run in pending:
        for part, key in ((run.cfg.model, "model"), (run.cfg.domains, "domains")):
            if hasattr(part, "require"):
                part.require(key)
    import torch

    if profile.needs_gpu and not torch.cuda.is_available():
        raise UserError(
            f"PROFILE={name}: its models need a GPU and torch sees none; run it on a machine with one, or "
            "take PROFILE=cpu"
        )


if __name__ == "__main__":
    with guarded():
        main(sys.argv[1:])
