"""What number formats of the model's weights and of the features cost the alignment."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from experiments.config import Config
from experiments.domains.base import DomainSet
from experiments.errors import UserError
from experiments.exact import as_arrays
from experiments.matmul import fast_float32
from experiments.models.base import DTYPES
from experiments.progress import progress
from experiments.scoring.sketch_error import MEASURES
from experiments.signatures import sketch_spec
from experiments.store import Store
from experiments.streaming import stream_terms
from fishersketch import FisherSketch, SketchSpec, align, exact_align

# Weights, and what their activations and errors are rounded to: never wider than they come.
# The first of both is the truth.
FORMATS = {
    "float64": ("float64", "float32", "bfloat16"),
    "float32": ("float32", "bfloat16"),
    "bfloat16": ("float32", "bfloat16"),
}
_FEWEST_DOMAINS = 4  # six pairs: fewer make a rank correlation meaningless
Task = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def run(cfg: Config, store: Store) -> None:
    """Aligns the same windows in every format, exactly and by one draw of features, against float64.

    A sketch is compared with the sketch of the same draw, so that its error is that of the format alone.

    Args:
        cfg: The run's configuration; the model's own format is not used.
        store: Where results go.

    Raises:
        UserError: There are too few domains, no windows, or a model that has one format.
    """
    if cfg.estimator.exact_windows == 0:
        raise UserError("estimator.exact_windows=0: nothing to align; must be at least 1")
    if not hasattr(cfg.model, "dtype"):
        raise UserError(f"model={cfg.model.name}: has no dtype to change; use a causal language model")
    held: dict[str, dict[tuple[str, str], dict[str, np.ndarray]]] = {"exact": {}, "sketch": {}}
    rows: list[dict[str, Any]] = []
    for weights, formats in FORMATS.items():
        with store.timed("model"):
            loaded = replace(cfg.model, dtype=weights).build(torch.device(cfg.device))
            data: DomainSet = cfg.domains.build(loaded.tokenizer)
        if len(data.domains) < _FEWEST_DOMAINS:
            raise UserError(
                f"domains={data.name}: has {len(data.domains)} domains; needs at least {_FEWEST_DOMAINS}"
            )
        with store.timed("stream"):
            tasks = [
                _terms(
                    stream_terms(loaded, d.sketch[: cfg.estimator.exact_windows], 0, cfg.estimator, d.name)
                )
                for d in progress(data.domains, f"errors in {weights}")
            ]
        spec = replace(sketch_spec(cfg.estimator, loaded, cfg.seed), extra_streams=())
        for features in progress(formats, f"alignments of {weights} weights"):
            with store.timed("align"), fast_float32(loaded.device):
                made = _alignments(cfg, spec, tasks, DTYPES[features])
            for estimator, table in made.items():
                held[estimator][weights, features] = table
                store.write_arrays(f"{estimator}_{weights}_{features}", **table)
    truth = ("float64", "float64")
    for estimator, tables in held.items():
        for (weights, features), table in tables.items():
            if (weights, features) != truth:
                rows += [
                    {"estimator": estimator, "weights": weights, "features": features, "measure": measure}
                    | _error(table[measure], tables[truth][measure])
                    for measure in MEASURES
                ]
    store.write_arrays("errors", **{column: [row[column] for row in rows] for column in rows[0]})
    store.write_metrics({
        "model": cfg.model.name,
        "data": data.name,
        "domains": [domain.name for domain in data.domains],
        "n_tokens": sum(len(task[1]) for task in tasks),
        "pairs": len(tasks) * (len(tasks) - 1) // 2,
        "seed": cfg.seed,
        "self_terms": cfg.estimator.self_terms,
        "error": _nested(rows),
        "seconds": store.seconds,
    })


def _terms(blocks: Iterator[Any]) -> Task:
    parts = [(block.activations, block.errors, block.group) for block in blocks]
    activations, errors, group = (torch.cat(part) for part in zip(*parts, strict=True))
    return activations, errors, group


def _alignments(
    cfg: Config, spec: SketchSpec, tasks: Sequence[Task], dtype: torch.dtype
) -> dict[str, dict[str, np.ndarray]]:
    """Returns the matrices of both estimators from activations and errors rounded to a format."""
    rounded = [(a.to(dtype), e.to(dtype), group) for a, e, group in tasks]
    signatures = []
    for task in rounded:
        sketch = FisherSketch(spec)
        sketch.update(*task)
        signatures.append(sketch.signature())
    exact = exact_align(rounded, cfg.estimator.self_terms, cfg.estimator.sample_unit)
    return {
        "exact": as_arrays(exact),
        "sketch": as_arrays(align(signatures, cfg.estimator.self_terms)),
    }


def _error(found: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    """Returns the largest and the root mean square error over the pairs, and the Spearman correlation."""
    from scipy.stats import spearmanr

    upper = np.triu_indices(len(truth), 1)
    difference = (found - truth)[upper]
    return {
        "max_abs_error": float(np.abs(difference).max()),
        "rms_error": float(np.sqrt(np.mean(difference**2))),
        "spearman": float(spearmanr(found[upper], truth[upper])[0]),
    }


def _nested(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for row in rows:
        by_features = table.setdefault(row["estimator"], {}).setdefault(row["weights"], {})
        by_features.setdefault(row["features"], {})[row["measure"]] = {
            name: row[name] for name in ("max_abs_error", "rms_error", "spearman")
        }
    return table
