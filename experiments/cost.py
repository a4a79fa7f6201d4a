"""What a sketch costs: time over the model's own, over other ways and against size; memory; bytes."""

from dataclasses import dataclass
from typing import Any

import torch

from experiments.config import Config
from experiments.costs.exact import exact_rows
from experiments.costs.growth import AXES, exponents, growth_rows, method_rows
from experiments.costs.memory import peak_of_stream
from experiments.costs.overhead import head_overhead, model_overhead
from experiments.costs.peers import peer_rows
from experiments.costs.speedup import projection_speedup
from experiments.costs.storage import exact_error_bytes, storage_rows
from experiments.costs.timing import Clock
from experiments.errors import UserError
from experiments.matmul import fast_float32
from experiments.models.base import LoadedModel
from experiments.options import option, register
from experiments.store import Store

PARTS = ("overhead", "speedup", "exact", "growth", "storage", "memory", "peers")


@register("settings", "cost")
@dataclass
class CostConfig:
    """Sizes at which costs are measured."""

    parts: list[str] = option(list(PARTS), "What is measured.", choices=PARTS)
    repeats: int = option(5, "Turns of each piece of work; medians and spread are over them.", min=1)
    threads: int = option(1, "Threads of torch on a CPU; 0: as many as torch takes by itself.", min=0)
    features: list[int] = option([4096, 16384, 32768], "Features (m) for overhead and storage.", min=1)
    num_features: int = option(4096, "Features (m) everywhere else.", min=1)
    windows: int = option(4, "Windows in the batch of the model's forward pass.", min=1)
    activation_dim: int = option(4096, "Inputs (d) of the large random head.", min=1)
    error_dim: int = option(128256, "Outputs (K) of the large random head.", min=2)
    tokens: int = option(128, "Tokens that projections are timed on.", min=2)
    head_batches: list[int] = option([32, 128], "Tokens in a batch of the large head.", min=2)
    exact_sizes: list[list[int]] = option(
        [[576, 49152], [768, 100]],
        "Pairs (d, K) at which the exact alignment is timed; the first is the main one.",
    )
    exact_tasks: list[int] = option([2, 10, 100], "Numbers of tasks (T) of the exact alignment.", min=2)
    exact_samples: list[int] = option([100, 500, 2000], "Samples a task (n) of the exact alignment.", min=4)
    exact_cap: int = option(512, "Samples a task that are measured at most; more is scaled by count.", min=4)
    growth: dict[str, list[int]] = option(
        {
            "n": [128, 256, 512, 1024],
            "d": [512, 1024, 2048, 4096],
            "K": [8192, 16384, 32768, 65536, 131072],
            "m": [1024, 4096, 16384, 32768],
        },
        "Values of each size; all others are those of growth_base.",
    )
    growth_base: dict[str, int] = option(
        {"n": 128, "d": 576, "K": 49152, "m": 4096}, "Samples (n), d, K and m that growth starts from."
    )
    memory_tokens: list[int] = option([2000, 16000], "Tokens streamed for the peak of memory.", min=1)
    peer_activation_dim: int = option(576, "Inputs (d) of the head that peers get.", min=1)
    peer_error_dims: list[int] = option([512, 4096, 32768, 128256], "Outputs (V) that peers get.", min=2)
    peer_tokens: int = option(4, "Tokens that peers get.", min=2)
    peer_bytes: int = option(
        4 * 2**30, "Memory that a peer may need; it is not run where it needs more.", min=1
    )

    def check(self, key: str) -> None:
        """Checks what spans fields.

        Raises:
            UserError: Growth lacks an axis or a second value, or a pair of sizes is none.
        """
        for axis in AXES:
            if axis not in self.growth_base or len(set(self.growth.get(axis, []))) < 2:
                raise UserError(f"{key}.growth={self.growth}: needs two or more values of each of {AXES}")
        if not self.exact_sizes or any(len(pair) != 2 or min(pair) < 1 for pair in self.exact_sizes):
            raise UserError(f"{key}.exact_sizes={self.exact_sizes}: must be pairs [d, K]")


def run(cfg: Config, store: Store) -> None:
    """Measures each part in turn; pieces of work that are compared take turns within one process.

    Args:
        cfg: The run's configuration.
        store: Where results go.
    """
    settings: CostConfig = cfg.settings
    threads = torch.get_num_threads()
    clock = Clock(torch.device(cfg.device))
    torch.set_num_threads(settings.threads or threads)
    try:
        with fast_float32(clock.device) as fast:
            metrics = _facts(cfg, settings, clock, fast) | _measure(cfg, settings, clock, store)
    finally:
        torch.set_num_threads(threads)
    store.write_metrics(metrics | {"seconds": store.seconds})


def _facts(cfg: Config, settings: CostConfig, clock: Clock, fast: bool) -> dict[str, Any]:
    cuda = torch.cuda.get_device_name(clock.device) if clock.device.type == "cuda" else None
    return {
        "model": cfg.model.name,
        "seed": cfg.seed,
        "threads": torch.get_num_threads(),
        "clock": clock.unit,
        "fast_float32": fast,
        "repeats": settings.repeats,
        "cuda": cuda or "skipped: this run was on the CPU",
        "exact_error_bytes": exact_error_bytes(settings.error_dim),
    }


def _measure(cfg: Config, settings: CostConfig, clock: Clock, store: Store) -> dict[str, Any]:
    """Returns the metrics of the parts asked for."""
    found: dict[str, Any] = {}
    m, repeats = settings.num_features, settings.repeats
    if {"overhead", "memory"} & set(settings.parts):
        with store.timed("model"):
            loaded = cfg.model.build(clock.device)
            data = cfg.domains.build(loaded.tokenizer)
        windows = data.domains[0].train
        found["data"] = f"{data.name}/{data.domains[0].name}"
    if "storage" in settings.parts:
        with store.timed("storage"):
            rows = storage_rows(
                settings.activation_dim, settings.error_dim, settings.features, _origin(cfg), clock
            )
        _write(store, "storage", rows)
        first = rows[0]
        found["storage"] = {f"m{row['m']}_{row['dtype']}": row for row in rows}
        found |= {key: first[key] for key in ("signature_bytes", "state_bytes", "file_bytes", "header_bytes")}
    if "overhead" in settings.parts:
        with store.timed("overhead"):
            found["overhead"] = _overhead(cfg, settings, loaded, windows, clock)
            found["n_tokens"] = found["overhead"].pop("n_tokens")
    if "speedup" in settings.parts:
        with store.timed("speedup"):
            found["speedup"] = projection_speedup(
                settings.activation_dim, settings.error_dim, m, settings.tokens, clock, min(repeats, 3)
            )
    if "exact" in settings.parts:
        with store.timed("exact"):
            found.setdefault("speedup", {}).update(_exact(settings, clock, store))
    if "growth" in settings.parts:
        with store.timed("growth"):
            found["growth"] = _growth(cfg, settings, clock, store)
    if "memory" in settings.parts:
        with store.timed("memory"):
            peaks = {str(count): peak_of_stream(cfg, windows, count) for count in settings.memory_tokens}
        found["memory"] = {"peak_bytes": peaks, "ratio": max(peaks.values()) / min(peaks.values())}
    if "peers" in settings.parts:
        with store.timed("peers"):
            rows = peer_rows(
                settings.peer_activation_dim,
                settings.peer_error_dims,
                m,
                settings.peer_tokens,
                settings.peer_bytes,
                clock,
                min(repeats, 3),
            )
        _write(store, "peers", [row | {"version": row["version"] or "checkout"} for row in rows])
        found["peers"] = rows
    return found


def _origin(cfg: Config) -> dict[str, Any]:
    # As long as a real one: hashes of a model and its tokenizer, and how labels were had.
    return {"model": "0" * 16, "tokenizer": "0" * 16, "label_mode": cfg.estimator.label_mode}


def _overhead(
    cfg: Config, settings: CostConfig, loaded: LoadedModel, windows: torch.Tensor, clock: Clock
) -> dict[str, Any]:
    batch = windows[: settings.windows]
    with torch.no_grad():
        model = model_overhead(loaded, batch, settings.features, cfg.estimator, clock, settings.repeats)
        heads = {
            str(count): head_overhead(
                settings.activation_dim,
                settings.error_dim,
                count,
                settings.num_features,
                cfg.estimator.projection,
                clock,
                settings.repeats,
            )
            for count in settings.head_batches
        }
    return {
        "smollm2": model["sketch"],
        "stream": model["stream"],
        "forward_seconds_per_token": model["forward_seconds_per_token"],
        "n_tokens": model["n_tokens"],
        "llama_head": heads[str(settings.head_batches[0])],
        "llama_head_batches": heads,
    }


def _exact(settings: CostConfig, clock: Clock, store: Store) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    for d, size in settings.exact_sizes:
        rows += exact_rows(
            d,
            size,
            settings.num_features,
            settings.exact_tasks,
            settings.exact_samples,
            settings.exact_cap,
            clock,
            settings.repeats,
        )
    table = {f"K{row['K']}_T{row['T']}_n{row['n']}": row["speedup"] for row in rows}
    _write(store, "exact", [row | {f"speedup_{k}": v for k, v in row.pop("speedup").items()} for row in rows])
    return {"exact_gram": table}


def _growth(cfg: Config, settings: CostConfig, clock: Clock, store: Store) -> dict[str, Any]:
    rows = growth_rows(
        dict(settings.growth_base),
        {axis: list(settings.growth[axis]) for axis in AXES},
        cfg.estimator.projection,
        clock,
        settings.repeats,
    )
    fitted = exponents(rows)
    _write(store, "growth", [row | row.pop("seconds") for row in rows])
    methods = method_rows(
        settings.peer_error_dims, settings.num_features, settings.tokens, clock, min(settings.repeats, 3)
    )
    _write(store, "cost", methods)
    return {"exponents": fitted}


def _write(store: Store, name: str, rows: list[dict[str, Any]]) -> None:
    store.write_arrays(name, **{key: [row[key] for row in rows] for key in rows[0]})
