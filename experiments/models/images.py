"""What a model of images needs beside what every model has: how images become its inputs."""

from dataclasses import dataclass

import torch

from experiments.models.base import LoadedModel


@dataclass(frozen=True)
class LoadedImageModel(LoadedModel):
    """A classifier of images, without a tokenizer.

    Attributes:
        input_name: Name of the argument of its forward method that takes images.
        channels: Channels of its inputs.
        image_size: Height and width of its inputs, in pixels.
        mean: Mean of each channel that is taken off, for values in [0, 1].
        std: Standard deviation of each channel that is divided by.
    """

    input_name: str
    channels: int
    image_size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def inputs(self, images: torch.Tensor) -> dict[str, torch.Tensor]:
        """Returns what the model takes for images.

        Args:
            images: (B, H, W) uint8, one channel, which is repeated where the model wants more.

        Returns:
            Keyword arguments of the model: (B, channels, image_size, image_size) float32 on its device.
        """
        pixels = images.to(self.device)[:, None].float() / 255
        if pixels.shape[-2:] != (self.image_size, self.image_size):
            size = (self.image_size, self.image_size)
            pixels = torch.nn.functional.interpolate(pixels, size, mode="bicubic", antialias=True).clamp(0, 1)
        mean, std = (pixels.new_tensor(values)[:, None, None] for values in (self.mean, self.std))
        return {self.input_name: (pixels.expand(-1, self.channels, -1, -1) - mean) / std}
