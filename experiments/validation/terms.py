"""Activations and errors of image tasks, and how well the model does on them."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from experiments.config import EstimatorConfig
from experiments.errors import UserError
from experiments.images.base import ImageTask
from experiments.models.base import LoadedModel
from experiments.models.images import LoadedImageModel
from fishersketch import head_terms, output_head
from fishersketch.kernel_sums import Samples

_BATCH = 256


@dataclass(frozen=True)
class TaskTerms:
    """What a head sees of one task.

    Attributes:
        activations: (N, d) float32 inputs of the head.
        errors: (N, K) float32 derivatives of the loss by its outputs.
        group: (N,) number of each image: its parity is its half.
        labels: (N,) classes that the errors hold, given or drawn.
    """

    activations: torch.Tensor
    errors: torch.Tensor
    group: torch.Tensor
    labels: torch.Tensor

    def first(self, count: int) -> Samples:
        """Returns the first images as a task of `exact_align`."""
        return Samples(self.activations[:count], self.errors[:count], self.group[:count])


def check_model(estimator: EstimatorConfig, loaded: LoadedModel, tasks: list[ImageTask]) -> LoadedImageModel:
    """Returns the model if it can be used with the tasks.

    Raises:
        UserError: It takes no images, or given labels do not name its outputs.
    """
    if not isinstance(loaded, LoadedImageModel):
        raise UserError(f"model={loaded.name}: takes no images; choose model=glyph_vit or model=vit_b16")
    classes, outputs = len(tasks[0].classes), output_head(loaded.model).out_features
    if estimator.label_mode == "data" and classes != outputs:
        raise UserError(
            f"model={loaded.name}: its {outputs} outputs are not the {classes} classes of the tasks, so "
            "their labels mean nothing to it; set estimator.label_mode=model, which draws labels from it"
        )
    return loaded


def task_terms(estimator: EstimatorConfig, loaded: LoadedImageModel, task: ImageTask) -> TaskTerms:
    """Returns the terms of all images of a task, on the model's device."""
    generator = torch.Generator().manual_seed(estimator.label_seed)
    # Labels that are drawn replace the given ones, which may name no output of the model.
    labels = task.labels if estimator.label_mode == "data" else torch.zeros_like(task.labels)
    parts = [
        head_terms(
            loaded.model,
            loaded.inputs(task.images[rows]),
            labels[rows].to(loaded.device),
            estimator.label_mode,
            generator if estimator.label_mode == "model" else None,
            group=torch.arange(len(task.images), device=loaded.device)[rows],
        )
        for rows in _rows(len(task.images))
    ]
    return TaskTerms(
        activations=torch.cat([part.activations for part in parts]),
        errors=torch.cat([part.errors for part in parts]),
        group=torch.cat([part.group for part in parts]),
        labels=torch.cat([part.labels for part in parts]),
    )


def accuracy(loaded: LoadedImageModel, images: torch.Tensor, labels: torch.Tensor) -> float:
    """Returns the share of images (N, H, W) whose largest output is their label (N,)."""
    right = 0
    with torch.no_grad():
        for rows in _rows(len(images)):
            outputs = loaded.model(**loaded.inputs(images[rows]))
            right += int((outputs.argmax(1).cpu() == labels[rows]).sum())
    return right / len(images)


def _rows(count: int) -> Iterator[slice]:
    return (slice(start, start + _BATCH) for start in range(0, count, _BATCH))
