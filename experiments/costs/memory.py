"""The most memory that a pass of a model with its sketch holds, in a process of its own."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import torch

from experiments.config import Config
from experiments.provenance import peak_bytes
from experiments.signatures import provenance, sketch_spec
from experiments.streaming import stream_terms
from fishersketch import FisherSketch


def peak_of_stream(cfg: Config, windows: torch.Tensor, count: int) -> int:
    """Streams tokens through the model and a sketch in a fresh process.

    Args:
        cfg: the run's configuration.
        windows: (N, W + 1) tokens, gone through again until `count` are predicted.
        count: tokens to predict.

    Returns:
        Bytes at the peak: resident on a CPU, allocated on a GPU.
    """
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=context) as pool:
        return pool.submit(_stream, cfg, windows.numpy(), count, torch.get_num_threads()).result()


def _stream(cfg: Config, windows: Any, count: int, threads: int) -> int:
    torch.set_num_threads(threads)
    device = torch.device(cfg.device)
    loaded = cfg.model.build(device)
    tokens = torch.from_numpy(windows)
    tokens = tokens.repeat(-(-count // (tokens[:, 1:].numel())), 1)[: -(-count // (tokens.shape[1] - 1))]
    sketch = FisherSketch(sketch_spec(cfg.estimator, loaded, cfg.seed), provenance(cfg.estimator, loaded))
    for terms in stream_terms(loaded, tokens, 0, cfg.estimator, "cost"):
        sketch.update(terms.activations, terms.errors, terms.group)
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    status = Path("/proc/self/status")
    if not status.exists():
        return peak_bytes()
    # ru_maxrss of a child starts at what its parent held; VmHWM is this process's own.
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024
