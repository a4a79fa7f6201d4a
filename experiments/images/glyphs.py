"""Letters and digits in the fonts that matplotlib ships, drawn with random place, size and tilt."""

import math
from functools import cache
from pathlib import Path

import numpy as np
import torch

from experiments.draws import indices, uniforms
from experiments.images.corruptions import corrupted

CLASSES = tuple("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
_DEJAVU, _STIX, _CM = "Bitstream Vera and DejaVu licence", "STIX Font License 1.0", "BaKoMa Fonts Licence"
FONTS = (
    {f"DejaVuSans{style}": _DEJAVU for style in ("", "-Bold", "-Oblique", "-BoldOblique")}
    | {f"DejaVuSansMono{style}": _DEJAVU for style in ("", "-Bold", "-Oblique", "-BoldOblique")}
    | {f"DejaVuSerif{style}": _DEJAVU for style in ("", "-Bold", "-Italic", "-BoldItalic")}
    | {f"STIXGeneral{style}": _STIX for style in ("", "Bol", "Italic", "BolIta")}
    | dict.fromkeys(("cmr10", "cmb10", "cmss10", "cmtt10"), _CM)
)
SIZE = 32
_CANVAS, _POINTS, _BASELINE = 64, 46, 47


def draw_glyphs(
    font: str, corruption: str, count: int, label: str, seed: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draws labelled images of glyphs, a function of the arguments and of matplotlib's font file.

    Args:
        font: One of `FONTS`.
        corruption: One of `experiments.images.corruptions.CORRUPTIONS`.
        count: Number of images, N.
        label: What the draws are for: another label gives other images.
        seed: Seed of the draws.

    Returns:
        Images (N, 32, 32) uint8, ink 255, and labels (N,) int64, places in `CLASSES`.
    """
    where = f"glyphs/{font}/{corruption}/{label}"
    labels = torch.from_numpy(indices(f"{where}/classes", seed, (count,), len(CLASSES)))
    place = torch.from_numpy(uniforms(f"{where}/places", seed, (count, 4))).float() * 2 - 1  # in [-1, 1)
    angle, scale = place[:, 0] * math.radians(8.0), 1.0 + 0.1 * place[:, 1]
    if corruption == "rotation":
        angle = angle + math.radians(30.0)
    # Rows of the map from places in the image to places on the canvas, both from -1 to 1.
    cosine, sine, shift = angle.cos() / scale, angle.sin() / scale, 0.1 * place[:, 2:]
    maps = torch.stack(
        [torch.stack([cosine, sine, shift[:, 0]], 1), torch.stack([-sine, cosine, shift[:, 1]], 1)], 1
    )
    grid = torch.nn.functional.affine_grid(maps, [count, 1, _CANVAS, _CANVAS], align_corners=False)
    canvas = _masks(font)[labels][:, None]
    turned = torch.nn.functional.grid_sample(canvas, grid, align_corners=False)
    images = torch.nn.functional.avg_pool2d(turned, _CANVAS // SIZE)[:, 0]
    noise = torch.from_numpy(uniforms(f"{where}/noise", seed, (count, SIZE, SIZE))).float()
    images = corrupted(images, corruption, noise)
    return (images.clamp(0, 1) * 255).round().to(torch.uint8), labels


@cache
def _masks(font: str) -> torch.Tensor:
    """Returns every class's glyph on the canvas, (62, 64, 64) float32 in [0, 1]."""
    from PIL import Image, ImageDraw, ImageFont

    face = ImageFont.truetype(str(font_file(font)), _POINTS)
    masks = []
    for letter in CLASSES:
        image = Image.new("L", (_CANVAS, _CANVAS))
        ImageDraw.Draw(image).text((_CANVAS // 2, _BASELINE), letter, fill=255, font=face, anchor="ms")
        masks.append(np.asarray(image))
    return torch.from_numpy(np.stack(masks)).float() / 255


def font_file(font: str) -> Path:
    """Returns the file of a font inside the installed matplotlib."""
    import matplotlib

    return Path(matplotlib.get_data_path()) / "fonts" / "ttf" / f"{font}.ttf"
