"""What can be done to an image of a glyph: one corruption makes one task."""

import torch

CORRUPTIONS = (
    "none",
    "blur",
    "noise",
    "rotation",
    "thick",
    "thin",
    "inverted",
    "occluded",
    "faint",
    "speckled",
)
_BLUR_PIXELS = 1.5
_BLOCK = 12


def corrupted(images: torch.Tensor, corruption: str, noise: torch.Tensor) -> torch.Tensor:
    """Returns images with one corruption; ``rotation`` is made where the glyphs are placed.

    Args:
        images: (N, H, W) float32 in [0, 1], ink 1.
        corruption: One of `CORRUPTIONS`.
        noise: (N, H, W) uniform draws from [0, 1).

    Returns:
        (N, H, W), values slightly outside of [0, 1] possible.
    """
    if corruption == "blur":
        return _blurred(images)
    if corruption == "noise":
        return images + 1.2 * (noise - 0.5)
    if corruption == "thick":
        return torch.nn.functional.max_pool2d(images[:, None], 3, 1, 1)[:, 0]
    if corruption == "thin":
        return _thinned(images)
    if corruption == "inverted":
        return 1 - images
    if corruption == "occluded":
        return _occluded(images, noise)
    if corruption == "faint":
        return 0.25 * images
    if corruption == "speckled":
        return torch.where(noise < 0.08, 1.0, torch.where(noise > 0.92, 0.0, images))
    return images


def _blurred(images: torch.Tensor) -> torch.Tensor:
    offsets = torch.arange(-4, 5, dtype=torch.float32)
    kernel = (-(offsets**2) / (2 * _BLUR_PIXELS**2)).exp()
    kernel = (kernel[:, None] * kernel)[None, None] / kernel.sum() ** 2
    return torch.nn.functional.conv2d(images[:, None], kernel, padding=4)[:, 0]


def _thinned(images: torch.Tensor) -> torch.Tensor:
    """Returns images eroded over 2 x 2 pixels."""
    padded = torch.nn.functional.pad(images[:, None], (0, 1, 0, 1))
    return -torch.nn.functional.max_pool2d(-padded, 2, 1)[:, 0]


def _occluded(images: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    """Returns images with one grey square at a random place."""
    size = images.shape[-1]
    rows = torch.arange(size)
    top = (noise[:, 0, :2] * (size - _BLOCK)).long()  # (N, 2)
    inside = (rows >= top[..., None]) & (rows < top[..., None] + _BLOCK)  # (N, 2, size)
    return torch.where(inside[:, 0, :, None] & inside[:, 1, None, :], 0.5, images)
