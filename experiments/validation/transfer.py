"""What fine-tuning on one image task does to the others, and what LogME and LEEP say of it."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from experiments.draws import permutations
from experiments.images.base import ImageTask
from experiments.models.images import LoadedImageModel
from experiments.progress import progress
from fishersketch import output_head
from fishersketch.baselines.checks import UndefinedSimilarityError
from fishersketch.baselines.leep import leep
from fishersketch.baselines.logme import logme

_BATCH = 64


@dataclass(frozen=True)
class ImageTransfer:
    """Gains of fine-tuning, and scores that see the fine-tuned sources.

    Attributes:
        gain: (T, T) float64, held-out loss of target j before minus after tuning on source i, nats an image.
        leep: (T, T) LEEP of the tuned source's label distribution on the target's images.
        logme: (T, T) LogME of the tuned source's features on the target's images.
    """

    gain: np.ndarray
    leep: np.ndarray
    logme: np.ndarray


def image_transfer(
    loaded: LoadedImageModel,
    tasks: Sequence[ImageTask],
    images: int,
    seen: int,
    learning_rate: float,
    seed: int,
) -> ImageTransfer:
    """Fine-tunes every parameter on each source, one epoch of AdamW, and tries it on every target.

    LEEP and LogME see a target's sketched images, never the held-out ones that give the gain. Neither is
    training-free here: both look at the source through the model tuned on it.

    Args:
        loaded: The base model; it stays as it is.
        tasks: The T tasks.
        images: Images of each source that are trained on.
        seen: Images of each target that LEEP and LogME see.
        learning_rate: Of AdamW, the same at every step.
        seed: Draws the order of the images.

    Returns:
        The gains and scores.
    """
    base = np.array([
        _look(loaded, loaded.model, task.held_out_images, task.held_out_labels).loss for task in tasks
    ])
    rows: dict[str, list[list[float]]] = {"loss": [], "leep": [], "logme": []}
    for source in progress(tasks, "fine-tune"):
        model = _tuned(loaded, source, images, learning_rate, seed)
        for values in rows.values():
            values.append([])
        for target in tasks:
            held_out = _look(loaded, model, target.held_out_images, target.held_out_labels)
            rows["loss"][-1].append(held_out.loss)
            shown = _look(loaded, model, target.images[:seen], target.labels[:seen])
            rows["leep"][-1].append(leep(shown.probabilities, target.labels[:seen]))
            rows["logme"][-1].append(_logme(shown.features, target.labels[:seen]))
    found = {name: np.array(values) for name, values in rows.items()}
    return ImageTransfer(gain=base - found["loss"], leep=found["leep"], logme=found["logme"])


def _tuned(
    loaded: LoadedImageModel, source: ImageTask, images: int, learning_rate: float, seed: int
) -> torch.nn.Module:
    model: Any = copy.deepcopy(loaded.model).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=0.0)
    count = min(images, len(source.images))
    order = torch.from_numpy(permutations(f"image order/{source.name}", seed, 1, count)[0])
    for rows in order.split(_BATCH):
        labels = source.labels[rows].to(loaded.device)
        loss = torch.nn.functional.cross_entropy(model(**loaded.inputs(source.images[rows])), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


@dataclass(frozen=True)
class _Look:
    loss: float
    probabilities: torch.Tensor
    features: torch.Tensor


def _look(
    loaded: LoadedImageModel, model: torch.nn.Module, images: torch.Tensor, labels: torch.Tensor
) -> _Look:
    """Returns the mean loss on images, and the head's probabilities and inputs, on the CPU."""
    features: list[torch.Tensor] = []
    hook = output_head(model).register_forward_pre_hook(lambda _, inputs: features.append(inputs[0].cpu()))
    try:
        with torch.no_grad():
            outputs = torch.cat([model(**loaded.inputs(part)).float().cpu() for part in images.split(256)])
    finally:
        hook.remove()
    loss = float(torch.nn.functional.cross_entropy(outputs, labels))
    return _Look(loss, outputs.softmax(1), torch.cat(features))


def _logme(features: torch.Tensor, labels: torch.Tensor) -> float:
    """Returns LogME, NaN where the evidence is unbounded."""
    try:
        return logme(features, labels)
    except UndefinedSimilarityError:
        return float("nan")
