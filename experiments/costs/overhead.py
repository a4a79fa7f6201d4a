"""All of a sketch's work over the work of the model that it watches."""

from typing import Any

import torch

from experiments.config import EstimatorConfig
from experiments.costs.sketch_work import form_errors, random_samples
from experiments.costs.timing import Clock, ratios, spread
from experiments.models.base import LoadedModel
from experiments.streaming import stream_terms
from fishersketch import FisherSketch, SketchSpec
from fishersketch.head_batch import prepare_batch
from fishersketch.head_outputs import raw_outputs
from fishersketch.head_transform import OutputTransform


def model_overhead(
    loaded: LoadedModel,
    windows: torch.Tensor,
    features: list[int],
    cfg: EstimatorConfig,
    clock: Clock,
    repeats: int,
) -> dict[str, Any]:
    """Error formation, projections and sums over the forward pass with its head, on the same windows.

    Args:
        loaded: a causal language model.
        windows: (N, W + 1) tokens, one batch.
        features: values of m.
        cfg: the projection.
        clock: reads the time.
        repeats: turns.

    Returns:
        ``sketch``, m to {median, min, max}: sketch work over a forward pass; ``stream``, for the first m
        alone: the whole streaming path, forward and sketch in one, over a forward pass.
    """
    ids = windows.to(loaded.device)
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    group = torch.arange(len(ids))
    batch = prepare_batch(loaded.model, inputs, ids, "data", None, group)
    outputs = raw_outputs(batch.head, batch.hidden, batch.activations)
    logits = outputs.clone()
    found: dict[str, Any] = {"sketch": {}, "stream": {}}
    for m in features:
        spec = SketchSpec(batch.head.in_features, batch.head.out_features, m, cfg.projection)
        sketch = FisherSketch(spec)

        def work(sketch: FisherSketch = sketch) -> None:
            errors = form_errors(batch.transform, logits, batch.positions.target)
            sketch.update(batch.activations, errors, batch.positions.group)

        def stream(sketch: FisherSketch = sketch) -> None:
            for terms in stream_terms(loaded, windows, 0, cfg, "cost"):
                sketch.update(terms.activations, terms.errors, terms.group)

        def forward() -> None:
            loaded.model(**inputs, use_cache=False)

        works = {"forward": forward, "sketch": work}
        if m == features[0]:
            works["stream"] = stream
        taken = clock.interleaved(works, repeats, lambda: logits.copy_(outputs))
        for side in works.keys() - {"forward"}:
            found[side][str(m)] = spread(ratios(taken[side], taken["forward"]))
        found.setdefault("forward_seconds_per_token", spread([t / ids.numel() for t in taken["forward"]]))
    return found | {"n_tokens": int(batch.positions.index.numel())}


def head_overhead(
    activation_dim: int, error_dim: int, count: int, m: int, projection: str, clock: Clock, repeats: int
) -> dict[str, Any]:
    """The same over the head's own matrix product alone, with random weights.

    Args:
        activation_dim: d.
        error_dim: K.
        count: tokens in the batch.
        m: features.
        projection: its name.
        clock: reads the time.
        repeats: turns.

    Returns:
        {median, min, max}, and the sizes.
    """
    device = clock.device
    weight = torch.empty(error_dim, activation_dim)
    weight = weight.uniform_(-0.03, 0.03, generator=torch.Generator().manual_seed(0)).to(device)
    activations, _, group = random_samples(count, activation_dim, 8, device)
    labels = torch.randint(0, error_dim, (count,), generator=torch.Generator().manual_seed(1)).to(device)
    logits = torch.empty(count, error_dim, device=device)
    sketch = FisherSketch(SketchSpec(activation_dim, error_dim, m, projection))

    def head() -> None:
        torch.mm(activations, weight.t(), out=logits)

    def work() -> None:  # the head has filled the logits just before
        sketch.update(activations, form_errors(OutputTransform(), logits, labels), group)

    taken = clock.interleaved({"head": head, "sketch": work}, repeats)
    found: dict[str, Any] = spread(ratios(taken["sketch"], taken["head"]))
    return found | {
        "activation_dim": activation_dim,
        "error_dim": error_dim,
        "batch": count,
        "num_features": m,
    }
