"""Features in 8 or 4 bits, with the step that makes inner products most accurate."""

import math

import torch

DTYPES = ("float32", "int8", "int4")
_LEVELS = {"int8": 127, "int4": 7}
_STEPS_TRIED = 64


def encode(vector: torch.Tensor, dtype: str) -> tuple[torch.Tensor, float]:
    r"""Stores a vector of features in few bits.

    Codes are q = clip(round(v / s), -L, L) with L = 127 or 7. The step s minimises the squared error
    over a grid of clipping points; the vector decodes to c q with c = (v . v) / (v . q), so that its
    inner product with itself, and to first order with any other task's vector, is not shrunk by the
    rounding (a least-squares c would shrink it). In float32 v is stored over a power of two, so that no
    scale of the features overflows or underflows.

    Args:
        vector: (m,) float64 features.
        dtype: "float32", "int8" or "int4".

    Returns:
        The stored tensor ((m,) float32, (m,) int8, or (ceil(m / 2),) uint8 with two codes a byte), and
        the factor c that decodes it.

    >>> codes, factor = encode(torch.tensor([0.0, 1.0, -7.0], dtype=torch.float64), "int4")
    >>> decode(codes, factor, "int4", 3).tolist()
    [0.0, 1.0, -7.0]
    """
    largest = float(vector.abs().max())
    scale = math.ldexp(1.0, math.frexp(largest)[1] - 1) if largest else 1.0
    vector = vector / scale  # its largest entry is in [1, 2)
    if dtype == "float32":
        return vector.to(torch.float32), scale
    levels = _LEVELS[dtype]
    if largest == 0.0:
        return _pack(torch.zeros(len(vector), dtype=torch.int8), dtype), 0.0
    largest /= scale
    fractions = torch.linspace(1.0, 0.1, _STEPS_TRIED, dtype=torch.float64)
    best, best_error = torch.zeros_like(vector), float("inf")
    for fraction in fractions:
        step = float(fraction) * largest / levels
        codes = torch.clamp(torch.round(vector / step), -levels, levels)
        error = float((vector - step * codes).square().sum())
        if error < best_error:
            best, best_error = codes, error
    factor = float(vector @ vector) / float(vector @ best)
    return _pack(best.to(torch.int8), dtype), factor * scale


def decode(codes: torch.Tensor, factor: float, dtype: str, size: int) -> torch.Tensor:
    """Returns the (size,) float64 features that `encode` stored."""
    if dtype != "int4":
        return codes.to(torch.float64) * factor
    low, high = (codes & 15).to(torch.int8), (codes >> 4).to(torch.int8)
    return (torch.stack([low, high], 1).flatten()[:size] - 8).to(torch.float64) * factor


def stored_shape(dtype: str, size: int) -> tuple[torch.dtype, int]:
    """Returns the type and the length of the tensor that holds `size` features."""
    if dtype == "int4":
        return torch.uint8, -(-size // 2)
    return (torch.int8 if dtype == "int8" else torch.float32), size


def _pack(codes: torch.Tensor, dtype: str) -> torch.Tensor:
    if dtype == "int8":
        return codes
    shifted = (codes + 8).to(torch.uint8)
    if len(shifted) % 2:
        shifted = torch.cat([shifted, shifted.new_full((1,), 8)])
    return shifted[0::2] | (shifted[1::2] << 4)
