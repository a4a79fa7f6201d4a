"""The sketch against the exact Fisher alignment on tasks of images: accuracy, speed, payloads."""

from typing import Any

import numpy as np
import torch

from experiments.config import Config
from experiments.errors import UserError
from experiments.exact import as_arrays
from experiments.images.base import ImageTask, ImageTaskSet
from experiments.models.images import LoadedImageModel
from experiments.progress import progress, progress_bar
from experiments.scores import score_table
from experiments.store import Store
from experiments.validation.grid import compare
from experiments.validation.record import upper, write_agreement
from experiments.validation.relabelled import relabelled_alignment
from experiments.validation.routes import route_difference
from experiments.validation.settings import BITS, EstimatorValidationConfig
from experiments.validation.sketches import growing_signatures
from experiments.validation.speed import speed_ratios
from experiments.validation.terms import TaskTerms, accuracy, check_model, task_terms
from experiments.validation.transfer import image_transfer
from fishersketch import Alignment, SketchSpec, align, exact_align

_SCORED = ("joint", "activation", "error", "coupling")


def run(cfg: Config, store: Store) -> None:
    """Compares sketches with the exact alignment and writes how well they agree.

    Args:
        cfg: The run's configuration.
        store: Where results go.

    Raises:
        UserError: The model or the tasks do not fit the job.
    """
    settings: EstimatorValidationConfig = cfg.settings
    _check(cfg)
    with store.timed("model"):
        model = cfg.model.build(torch.device(cfg.device))
    with store.timed("tasks"):
        data: ImageTaskSet = cfg.domains.build_images()
    tasks = data.tasks
    _check_tasks(settings, tasks)
    loaded = check_model(cfg.estimator, model, tasks)
    with store.timed("forward"):
        terms = [task_terms(cfg.estimator, loaded, task) for task in progress(tasks, "forward")]
    labels = {"names": [task.name for task in tasks], "groups": [task.group for task in tasks]}
    with store.timed("exact"):
        exact = [_exact(terms, count, cfg.estimator.self_terms) for count in settings.samples]
    with store.timed("sketch"):
        seeds = [cfg.seed + step for step in range(settings.projection_seeds)]
        sketched = {seed: _sketched(cfg, terms, seed) for seed in progress(seeds, "projections")}
    main, last = cfg.estimator.num_features, len(settings.samples) - 1
    with store.timed("agreement"):
        grid = {
            (m, n): compare([sketched[seed][m, n] for seed in seeds], exact[place], settings.resamples)
            for m in settings.features
            for place, n in enumerate(settings.samples)
        }
        of_full = {
            n: compare([sketched[seed][main, n] for seed in seeds], exact[last], settings.resamples)
            for n in settings.samples
        }
        payloads = {
            dtype: compare([sketched[seed][dtype] for seed in seeds], exact[last], settings.resamples)
            for dtype in BITS
        }
    write_agreement(store, settings, exact, grid, of_full, payloads, seeds)
    full = settings.samples[-1]
    table = sketched[cfg.seed][main, full]
    for name, alignment in (("alignments", table), ("exact", exact[last])):
        store.write_arrays(name, **labels, n_tokens=[full] * len(tasks), **as_arrays(alignment))
    spec = _spec(cfg, terms, main, cfg.seed)
    with store.timed("routes"):
        routes = route_difference(
            [task.first(settings.route_samples) for task in terms[: settings.route_tasks]],
            cfg.estimator.self_terms,
        )
    with store.timed("class_map"):
        class_map = relabelled_alignment(
            spec,
            [task.first(settings.relabelled_samples) for task in terms],
            _outputs(tasks, terms),
            cfg.estimator.self_terms,
            seed=0,
        )
    with store.timed("speed"):
        speed = speed_ratios(
            spec, terms[: settings.speed_tasks], full, settings.repeats, cfg.estimator.self_terms
        )
    metrics = _facts(cfg, data, loaded) | {
        "n_samples": full * len(tasks),
        "activation_dim": spec.activation_dim,
        "error_dim": spec.error_dim,
        "sketch": grid[main, full].metrics()
        | {"num_features": main, "state_bytes": spec.state_bytes, "signature_bytes": 4 * main},
        "payload": {
            dtype: found.metrics()
            | {"num_features": settings.payload_features(dtype), "signature_bytes": settings.payload_bytes}
            for dtype, found in payloads.items()
        },
        "routes": routes,
        "class_map": class_map,
        "speedup": speed,
        "coupling_spread": float(np.nanstd(upper(exact[last].coupling))),
    }
    if settings.transfer_images:
        with store.timed("transfer"):
            metrics |= _transfer(settings, store, loaded, tasks, table, labels)
    store.write_metrics(metrics | {"seconds": store.seconds})


def _check(cfg: Config) -> None:
    settings = cfg.settings
    if not hasattr(cfg.domains, "build_images"):
        raise UserError(f"domains={cfg.domains.name}: holds no images; choose domains=glyphs")
    if cfg.estimator.sample_unit != "token":
        raise UserError(
            f"estimator.sample_unit={cfg.estimator.sample_unit}: an image is one sample; set it to token"
        )
    if cfg.estimator.num_features not in settings.features:
        raise UserError(
            f"estimator.num_features={cfg.estimator.num_features}: must be one of "
            f"settings.features={list(settings.features)}"
        )


def _check_tasks(settings: EstimatorValidationConfig, tasks: list[ImageTask]) -> None:
    if len(tasks) < 4:
        raise UserError(f"domains: {len(tasks)} tasks; correlations over pairs need at least 4")
    for task in tasks:
        if len(task.images) < settings.samples[-1]:
            raise UserError(
                f"settings.samples={list(settings.samples)}: task {task.name} has {len(task.images)} images; "
                "raise domains.images, or lower it"
            )


def _spec(cfg: Config, terms: list[TaskTerms], features: int, seed: int) -> SketchSpec:
    return SketchSpec(
        activation_dim=terms[0].activations.shape[1],
        error_dim=terms[0].errors.shape[1],
        num_features=features,
        projection=cfg.estimator.projection,
        seed=seed,
    )


def _exact(terms: list[TaskTerms], count: int, self_terms: str) -> Alignment:
    parts = [task.first(count) for task in terms]
    pairs = len(parts) * (len(parts) + 1) // 2
    with progress_bar(f"exact, n = {count}", pairs) as bar:
        return exact_align(
            [(part.activations, part.errors, part.group) for part in parts],
            self_terms,
            progress=lambda done, count: bar.update(),
        )


def _sketched(cfg: Config, terms: list[TaskTerms], seed: int) -> dict[Any, Alignment]:
    """Returns alignments by (m, n), and those of the payloads at the full n by dtype."""
    settings = cfg.settings
    wanted = {m: ["float32"] for m in settings.features}
    for dtype in BITS:
        wanted.setdefault(settings.payload_features(dtype), []).append(dtype)
    found: dict[Any, Alignment] = {}
    for m, dtypes in wanted.items():
        samples = settings.samples if m in settings.features else settings.samples[-1:]
        taken = growing_signatures(_spec(cfg, terms, m, seed), terms, samples, sorted(set(dtypes)))
        for n, signatures in zip(samples, taken, strict=True):
            if m in settings.features:
                found[m, n] = align(signatures["float32"], cfg.estimator.self_terms)
        for dtype in dtypes:
            if m == settings.payload_features(dtype):
                found[dtype] = align(taken[-1][dtype], cfg.estimator.self_terms)
    return found


def _outputs(tasks: list[ImageTask], terms: list[TaskTerms]) -> list[str]:
    """Returns names of the head's outputs: the classes, or numbers where the model has other ones."""
    classes, size = tasks[0].classes, terms[0].errors.shape[1]
    return list(classes) if len(classes) == size else [str(place) for place in range(size)]


def _facts(cfg: Config, data: ImageTaskSet, loaded: LoadedImageModel) -> dict[str, Any]:
    tasks = data.tasks
    same = len(tasks[0].classes) == loaded.vocabulary_size
    held_out = {
        task.name: accuracy(loaded, task.held_out_images, task.held_out_labels) for task in tasks if same
    }
    return {
        "model": cfg.model.name,
        "fingerprint": loaded.fingerprint,
        "data": data.name,
        "domains": [task.name for task in tasks],
        "groups": {task.name: task.group for task in tasks},
        "sources": {task.name: task.source for task in tasks},
        "licences": {task.name: task.licence for task in tasks},
        "accuracy": held_out,
        "seed": cfg.seed,
        "self_terms": cfg.estimator.self_terms,
    }


def _transfer(
    settings: EstimatorValidationConfig,
    store: Store,
    loaded: LoadedImageModel,
    tasks: list[ImageTask],
    table: Alignment,
    labels: dict[str, list[str]],
) -> dict[str, Any]:
    found = image_transfer(
        loaded, tasks, settings.transfer_images, settings.transfer_seen, settings.learning_rate, seed=0
    )
    scores = {name: getattr(table, name).numpy() for name in _SCORED}
    scores |= {"leep": found.leep, "logme": found.logme}
    store.write_arrays("estimators", **labels, **scores)
    store.write_arrays("transfer", **labels, gain=found.gain[None])
    return score_table(scores, found.gain[None])
