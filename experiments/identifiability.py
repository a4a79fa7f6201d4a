"""What representations cannot tell: Theorem 3.2's witness, Theorem 4.2's identity, a dial between tasks."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from experiments.config import Config
from experiments.domains.base import DomainSet
from experiments.errors import UserError
from experiments.options import option, register
from experiments.progress import progress
from experiments.relabelling.dial import Dial, summarised, turn_dial
from experiments.relabelling.identity import identity_errors
from experiments.relabelling.random_text import random_inputs
from experiments.relabelling.separability import Separability, separability, summarised_gaps
from experiments.relabelling.shared_inputs import SharedInputs, shared_inputs
from experiments.relabelling.witness import REPRESENTATIONS, SOFTMAXES, witness, worst
from experiments.signatures import sketch_spec
from experiments.store import Store
from fishersketch import SketchSpec


@register("settings", "identifiability")
@dataclass
class IdentifiabilityConfig:
    """How many tokens, labellings and repeats."""

    windows: int = option(8, "Sketch windows of each domain that are used.", min=2)
    overlaps: list[float] = option(
        [round(0.1 * step, 1) for step in range(11)],
        "Shares of label types that both tasks have: the dial's positions.",
        min=0,
        max=1,
    )
    label_seeds: list[int] = option([0, 1, 2, 3, 4], "Seeds of the relabellings.", min=0)
    svcca_components: int = option(20, "At most so many singular directions in SVCCA.", min=1)
    identity_tasks: int = option(6, "Random tasks of each shape for the identity.", min=2)
    identity_samples: int = option(128, "Samples of each of these tasks.", min=2)
    permutations: int = option(39, "Permutations of the errors for the null of the separability gap.", min=1)

    def check(self, key: str) -> None:
        """Checks that the dial turns and has an interval.

        Raises:
            UserError: The dial's positions do not rise, or there are no two seeds, all different.
        """
        if len(self.overlaps) < 2 or sorted(set(self.overlaps)) != list(self.overlaps):
            raise UserError(f"{key}.overlaps={self.overlaps}: must be two or more rising numbers")
        if len(self.label_seeds) < 2 or len(set(self.label_seeds)) < len(self.label_seeds):
            raise UserError(f"{key}.label_seeds={self.label_seeds}: must be two or more different seeds")


def run(cfg: Config, store: Store) -> None:
    """Checks the identity, builds the witness, turns the dial and measures separability on each domain.

    Args:
        cfg: The run's configuration.
        store: Where results go.

    Raises:
        UserError: The estimator asks for other samples or labels than the text's tokens, or the domains have
            too few windows.
    """
    settings: IdentifiabilityConfig = cfg.settings
    _check(cfg)
    with store.timed("identity"):
        identity = identity_errors(settings.identity_tasks, settings.identity_samples, seed=0)
    with store.timed("model"):
        loaded = cfg.model.build(torch.device(cfg.device))
    with store.timed("domains"):
        data: DomainSet = cfg.domains.build(loaded.tokenizer)
    tokens = 0
    witnesses: dict[str, dict[str, Any]] = {}
    dials: dict[str, Dial] = {}
    gaps: dict[str, Separability] = {}
    for domain in progress(data.domains, "identifiability"):
        windows, name = domain.sketch[: settings.windows], domain.name
        if len(windows) < settings.windows:
            raise UserError(
                f"settings.windows={settings.windows}: domain {name} has {len(windows)} sketch windows; "
                "raise domains.sketch_windows, or lower it"
            )
        with store.timed("forward"):
            first, second = shared_inputs(loaded, windows), shared_inputs(loaded, windows)
            exact = first.double(loaded)
        tokens += len(first.labels)
        with store.timed("witness"):
            spec = sketch_spec(cfg.estimator, loaded, cfg.seed)
            witnesses[name] = _witness(cfg, first, second, exact, name, spec)
        with store.timed("dial"):
            repeated = second.activations.double()
            dials[name] = turn_dial(
                exact, repeated, name, settings.overlaps, settings.label_seeds, settings.svcca_components
            )
        with store.timed("separability"):
            errors = exact.rotated(exact.labels.unique()).errors(exact.labels)
            gaps[name] = separability(
                exact.activations, errors, exact.group, settings.permutations, name, seed=0
            )
    random = random_inputs(512, 32, 256, label_types=64, seed=0)
    _write(store, settings, dials, gaps)
    store.write_metrics({
        "model": cfg.model.name,
        "data": data.name,
        "domains": [domain.name for domain in data.domains],
        "sources": {domain.name: domain.source for domain in data.domains},
        "licences": {domain.name: domain.licence for domain in data.domains},
        "n_tokens": tokens,
        "seed": cfg.seed,
        "identity": identity,
        "witness": worst(witnesses)
        | {
            "by_domain": witnesses,
            "random": _witness(cfg, random, random, random, "random", _small_spec(cfg, random)),
        },
        "dial": summarised(dials, settings.overlaps),
        "separability": summarised_gaps(gaps),
        "seconds": store.seconds,
    })


def _check(cfg: Config) -> None:
    for name, value in (("sample_unit", "token"), ("label_mode", "data")):
        found = getattr(cfg.estimator, name)
        if found != value:
            raise UserError(
                f"estimator.{name}={found}: the job relabels single tokens of a text; set it to {value}"
            )


def _witness(
    cfg: Config, first: SharedInputs, second: SharedInputs, exact: SharedInputs, name: str, spec: SketchSpec
) -> dict[str, Any]:
    settings = cfg.settings
    return witness(
        first,
        second,
        exact,
        name,
        settings.label_seeds[0],
        spec,
        cfg.estimator.signature,
        settings.svcca_components,
    )


def _small_spec(cfg: Config, random: SharedInputs) -> SketchSpec:
    sizes = random.activations.shape[1], random.raw.shape[1]
    return SketchSpec(
        *sizes, num_features=cfg.estimator.num_features, projection=cfg.estimator.projection, seed=cfg.seed
    )


def _write(
    store: Store, settings: IdentifiabilityConfig, dials: dict[str, Dial], gaps: dict[str, Separability]
) -> None:
    names, found = list(dials), list(dials.values())
    labels = {"names": names, "overlaps": settings.overlaps, "seeds": settings.label_seeds}
    for kind in SOFTMAXES:
        factors = {
            name: np.stack([dial.alignments[kind][name] for dial in found])
            for name in found[0].alignments[kind]
        }
        store.write_arrays(f"dial_{kind}", **labels, **factors)
    metrics = {name: np.stack([dial.representations[name] for dial in found]) for name in REPRESENTATIONS}
    overlap = np.stack([dial.token_overlap for dial in found])
    store.write_arrays("dial_representations", **labels, token_overlap=overlap, **metrics)
    store.write_arrays(
        "separability",
        names=names,
        squared=[gap.squared for gap in gaps.values()],
        plain=[gap.plain for gap in gaps.values()],
        null=np.stack([gap.null for gap in gaps.values()]),
        null_plain=np.stack([gap.null_plain for gap in gaps.values()]),
    )
