"""One pass over the samples: the sketch of every layer and of all together, and the test of independence."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from experiments.config import Config
from experiments.errors import UserError
from experiments.models.base import LoadedModel
from experiments.network.samples import SampledTask
from experiments.progress import progress_bar
from fishersketch.errors import FisherSketchError
from fishersketch.independence import independence_test
from fishersketch.layers import layer_terms, linear_layers
from fishersketch.network_sketch import LayerShape, NetworkSketch, align_networks


@dataclass(frozen=True)
class LayerPass:
    """What one pass over T tasks gives for L layers.

    Attributes:
        alignments: (T, T) by layer, and under "network".
        state_bytes: Of one task's sketch.
        squared_gap: (L, T) separability gap squared, of either sign.
        null_high: (L, T) 95 % quantile of it under permuted errors.
        p: (L, T) share of permutations with a gap as large.
    """

    alignments: dict[str, np.ndarray]
    state_bytes: int
    squared_gap: np.ndarray
    null_high: np.ndarray
    p: np.ndarray


def layer_pass(cfg: Config, loaded: LoadedModel, tasks: Sequence[SampledTask]) -> LayerPass:
    """Streams the samples of each task once.

    Args:
        cfg: The run's configuration.
        loaded: The model.
        tasks: The T tasks.

    Returns:
        Sketched alignments and gaps. A task's activations and errors of all layers are in memory at once.

    Raises:
        UserError: A pattern names no layer, or a task gives values that are not finite.
    """
    settings, estimator = cfg.settings, cfg.estimator
    try:
        layers = linear_layers(loaded.model, settings.layers)
    except FisherSketchError as error:
        raise UserError(f"settings.{error}") from error
    shapes = {name: LayerShape(layer.in_features, layer.out_features) for name, layer in layers.items()}
    sketches, found = [], np.full((3, len(layers), len(tasks)), np.nan)
    with progress_bar("sketch and test of every layer", len(tasks) * len(tasks[0].samples)) as bar:
        for place, task in enumerate(tasks):
            sketch = NetworkSketch(shapes, estimator.num_features, estimator.projection, cfg.seed)
            rows: dict[str, list[tuple[torch.Tensor, torch.Tensor]]] = {name: [] for name in layers}
            try:
                for number, (inputs, labels) in enumerate(task.samples):
                    terms = layer_terms(loaded.model, inputs, labels, layers)
                    sketch.update(terms, number)
                    for name, (activations, errors) in terms.items():
                        rows[name].append((activations[0], errors[0]))
                    bar.update()
                for index, name in enumerate(layers):
                    found[:, index, place] = _tested(rows.pop(name), settings.permutations, cfg.seed)
            except FisherSketchError as error:
                raise UserError(f"task {task.name}: {error}") from error
            sketches.append(sketch)
    alignments = align_networks(sketches, estimator.self_terms)
    return LayerPass(
        {name: table.numpy() for name, table in alignments.items()}, sketches[0].state_bytes, *found
    )


def _tested(
    rows: list[tuple[torch.Tensor, torch.Tensor]], permutations: int, seed: int
) -> tuple[float, float, float]:
    lengths = torch.tensor([len(errors) for _, errors in rows])
    result = independence_test(
        torch.cat([activations for activations, _ in rows]),
        torch.cat([errors for _, errors in rows]),
        torch.arange(len(rows)).repeat_interleave(lengths),
        permutations,
        torch.Generator().manual_seed(seed),
    )
    return result.squared_gap, float(result.null.quantile(0.95)), result.p
