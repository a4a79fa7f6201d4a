"""What a task of images is."""

from dataclasses import dataclass

import torch

from experiments.tensors import digest


@dataclass(frozen=True)
class ImageTask:
    """One set of labelled images.

    Attributes:
        name: Name in tables and figures.
        group: Group that it belongs to.
        source: Where its images come from.
        licence: Their licence.
        images: (N, H, W) uint8, 0 black; what signatures see.
        labels: (N,) int64, places in ``classes``.
        held_out_images: (M, H, W) uint8, never sketched or trained on.
        held_out_labels: (M,) int64.
        classes: Names of the classes, in the order of the labels.
    """

    name: str
    group: str
    source: str
    licence: str
    images: torch.Tensor
    labels: torch.Tensor
    held_out_images: torch.Tensor
    held_out_labels: torch.Tensor
    classes: tuple[str, ...]

    @property
    def digest(self) -> str:
        """Hash of the images and labels that signatures see."""
        return digest(torch.cat([self.images.flatten(1).to(torch.int64), self.labels[:, None]], 1))


@dataclass(frozen=True)
class ImageTaskSet:
    """Tasks of images that share their classes.

    Attributes:
        name: Name in tables and figures.
        tasks: The T tasks.
    """

    name: str
    tasks: list[ImageTask]
