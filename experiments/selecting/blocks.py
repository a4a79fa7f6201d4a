"""Sketches of a text in blocks, from the cache where it was sketched before."""

import json
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save

from experiments.artefacts import ArtefactCache
from experiments.config import EstimatorConfig
from experiments.models.base import LoadedModel
from experiments.selecting.reading import BLOCKS
from experiments.signatures import provenance, sketch_spec
from experiments.streaming import named, stream_terms
from experiments.tensors import digest
from fishersketch import FisherSketch


def block_sketches(
    cfg: EstimatorConfig,
    loaded: LoadedModel,
    windows: torch.Tensor,
    seed: int,
    name: str,
    cache: ArtefactCache,
) -> list[FisherSketch]:
    """Returns the sketches of a text's blocks, which follow each other and are of like size.

    Args:
        cfg: How.
        loaded: A causal language model.
        windows: (N, W + 1) int64 windows, N at least `BLOCKS`.
        seed: Draws the projection.
        name: Name of the text, for errors.
        cache: Keeps the sketches.

    Returns:
        The `BLOCKS` sketches; merged they are the text's.

    Raises:
        NotFiniteDomain: The model gives values that are not finite.
    """
    spec, origin = sketch_spec(cfg, loaded, seed), provenance(cfg, loaded)
    bounds = [round(block * len(windows) / BLOCKS) for block in range(BLOCKS + 1)]

    def make(path: Path) -> None:
        tensors: dict[str, torch.Tensor] = {}
        headers = []
        for block, (start, stop) in enumerate(zip(bounds[:-1], bounds[1:], strict=True)):
            sketch = FisherSketch(spec, origin)
            for terms in stream_terms(loaded, windows[start:stop], start, cfg, name):
                with named(name):
                    sketch.update(terms.activations, terms.errors, terms.group)
            state, header = sketch.state()
            tensors |= {f"{block}.{key}": tensor for key, tensor in state.items()}
            headers.append(header)
        path.write_bytes(save(tensors, metadata={"sketches": json.dumps(headers)}))

    key = {
        "windows": digest(windows),
        "bounds": bounds,
        "spec": spec.to_dict(),
        "provenance": origin,
        "recipe": FisherSketch.RECIPE,
    }
    path = cache.get("block_sketches", key, make, ".safetensors")
    with safe_open(path, framework="pt") as file:
        headers = json.loads(file.metadata()["sketches"])
    tensors = load_file(path)
    names = ("sums", "counts", "tokens")
    return [
        FisherSketch.from_state({key: tensors[f"{block}.{key}"] for key in names}, header)
        for block, header in enumerate(headers)
    ]


def merged(blocks: list[FisherSketch], without: int | None = None) -> FisherSketch:
    """Returns the sketch of all blocks, or of all but one; the blocks stay as they are."""
    whole = FisherSketch(blocks[0].spec, blocks[0].provenance)
    for number, block in enumerate(blocks):
        if number != without:
            whole.merge(block)
    return whole
