"""How close sketched alignments come to the exact ones, by projection, features and bytes of a signature."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from experiments.config import Config
from experiments.domains.base import Domain, DomainSet
from experiments.errors import UserError
from experiments.exact import as_arrays
from experiments.matmul import fast_float32
from experiments.models.base import LoadedModel
from experiments.options import option, register
from experiments.progress import progress, progress_bar
from experiments.scoring.sketch_error import sketch_error
from experiments.signatures import provenance, sketch_spec
from experiments.store import Store
from experiments.streaming import stream_terms
from fishersketch import Alignment, FisherSketch, SketchSpec, align, align_stream, exact_align

_PROJECTIONS = ("rademacher", "hadamard", "block_hadamard")
_SIGNATURES = ("float32", "int8", "int4")
_FEWEST_DOMAINS = 4  # six pairs: fewer make a rank correlation meaningless
Task = tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]


@register("settings", "sketch_accuracy")
@dataclass
class SketchAccuracyConfig:
    """Which sketches are held against the exact alignment."""

    num_features: dict[str, list[int]] = option(
        {"block_hadamard": [4096, 16384, 32768], "hadamard": [4096], "rademacher": []},
        "Numbers of features (m) by projection; rademacher is slow at vocabulary size.",
    )
    signatures: list[str] = option(
        ["float32", "int8", "int4"], "Numbers that signatures are made of.", choices=_SIGNATURES
    )
    seeds: int = option(3, "Draws of each projection, from the run's seed on.", min=1)

    def check(self, key: str) -> None:
        """Checks the projections' names and features.

        Raises:
            UserError: For the first that is wrong.
        """
        if not any(self.num_features.values()):
            raise UserError(f"{key}.num_features: there are no features of any projection")
        for name, values in self.num_features.items():
            if name not in _PROJECTIONS:
                raise UserError(f"{key}.num_features.{name}: must be one of {', '.join(_PROJECTIONS)}")
            for value in values:
                if value < 2:
                    raise UserError(f"{key}.num_features.{name}: holds {value}; must be at least 2")


def run(cfg: Config, store: Store) -> None:
    """Streams the first windows of every domain once, into all sketches and the exact alignment.

    Args:
        cfg: The run's configuration.
        store: Where results go.

    Raises:
        UserError: There are too few domains, or no windows to compare.
    """
    if cfg.estimator.exact_windows == 0:
        raise UserError("estimator.exact_windows=0: nothing to compare; must be at least 1")
    with store.timed("model"):
        loaded = cfg.model.build(torch.device(cfg.device))
    with store.timed("domains"):
        data: DomainSet = cfg.domains.build(loaded.tokenizer)
    if len(data.domains) < _FEWEST_DOMAINS:
        raise UserError(
            f"domains={data.name}: has {len(data.domains)} domains; needs at least {_FEWEST_DOMAINS}"
        )
    specs = _specs(cfg, loaded)
    sketches: dict[SketchSpec, list[FisherSketch]] = {spec: [] for spec in specs}
    tasks: list[Task] = []
    with store.timed("sketch"):
        for domain in progress(data.domains, "sketch"):
            made, task = _stream(cfg, loaded, domain, specs)
            tasks.append(task)
            for spec, sketch in made.items():
                sketches[spec].append(sketch)
    with store.timed("exact"):
        count = len(tasks) * (len(tasks) + 1) // 2
        with fast_float32(loaded.device), progress_bar("exact alignment", count) as bar:
            truth = exact_align(
                tasks,
                cfg.estimator.self_terms,
                cfg.estimator.sample_unit,
                progress=lambda done, count: bar.update(),
            )
    labels = {"names": [d.name for d in data.domains], "groups": [d.group for d in data.domains]}
    tokens = [len(task[1]) for task in tasks]
    store.write_arrays("exact", **labels, n_tokens=tokens, **as_arrays(truth))
    with store.timed("compare"):
        rows = [
            _compare(cfg, spec, made, dtype, truth)
            for spec, made in progress(sketches.items(), "compare")
            for dtype in cfg.settings.signatures
        ]
    store.write_arrays("accuracy", **{column: [row[column] for row in rows] for column in rows[0]})
    store.write_metrics({
        "model": cfg.model.name,
        "data": data.name,
        "domains": labels["names"],
        "n_tokens": sum(tokens),
        "pairs": len(tasks) * (len(tasks) - 1) // 2,
        "seed": cfg.seed,
        "seeds": cfg.settings.seeds,
        "self_terms": truth.self_terms,
        "accuracy": _by_sketch(rows),
        "seconds": store.seconds,
    })


def _specs(cfg: Config, loaded: LoadedModel) -> list[SketchSpec]:
    base = replace(sketch_spec(cfg.estimator, loaded, cfg.seed), extra_streams=())
    return [
        replace(base, projection=projection, num_features=m, seed=cfg.seed + draw)
        for projection, features in cfg.settings.num_features.items()
        for m in features
        for draw in range(cfg.settings.seeds)
    ]


def _stream(
    cfg: Config, loaded: LoadedModel, domain: Domain, specs: list[SketchSpec]
) -> tuple[dict[SketchSpec, FisherSketch], Task]:
    """Returns a domain's sketches, and the activations, errors and groups that they saw."""
    origin = provenance(cfg.estimator, loaded)
    sketches = {spec: FisherSketch(spec, origin) for spec in specs}
    windows = domain.sketch[: cfg.estimator.exact_windows]
    blocks = []
    for terms in stream_terms(loaded, windows, 0, cfg.estimator, domain.name):
        for sketch in sketches.values():
            sketch.update(terms.activations, terms.errors, terms.group)
        blocks.append((terms.activations, terms.errors, terms.group))
    activations, errors, group = (torch.cat(parts) for parts in zip(*blocks, strict=True))
    return sketches, (activations, errors, group)


def _compare(
    cfg: Config, spec: SketchSpec, sketches: list[FisherSketch], dtype: str, truth: Alignment
) -> dict[str, Any]:
    signatures = [sketch.signature(dtype) for sketch in sketches]
    table = align(signatures, cfg.estimator.self_terms)
    exact, sketched = as_arrays(truth), as_arrays(table)
    alone = sketched | {"joint": align_stream(signatures, "joint", cfg.estimator.self_terms).numpy()}
    uncorrected = sketch_error(alone, exact)
    return {
        "projection": spec.projection,
        "num_features": spec.num_features,
        "signature": dtype,
        "payload_bytes": signatures[0].signature_bytes,
        "seed": spec.seed,
        **sketch_error(sketched, exact),
        "rmse_joint_stream_alone": uncorrected["rmse_joint"],
        "spearman_joint_stream_alone": uncorrected["spearman_joint"],
    }


def _by_sketch(rows: list[dict[str, Any]]) -> dict[str, Any]:
    # By projection, features and signature: each measure as mean, least and most over the draws.
    fixed = ("projection", "num_features", "signature", "payload_bytes", "seed")
    table: dict[str, Any] = {}
    for first in rows:
        same = [row for row in rows if all(row[key] == first[key] for key in fixed[:3])]
        cell: dict[str, Any] = {"payload_bytes": first["payload_bytes"]}
        for name in first.keys() - set(fixed):
            values = np.array([row[name] for row in same])
            cell[name] = {"mean": values.mean(), "min": values.min(), "max": values.max()}
        by_features = table.setdefault(first["projection"], {}).setdefault(str(first["num_features"]), {})
        by_features[first["signature"]] = cell
    return table
