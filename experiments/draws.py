"""Random draws by a fixed recipe: raw Philox words, so that a seed means the same on every numpy release."""

import numpy as np

from fishersketch.draws import Draws


def words(label: str, seed: int, count: int) -> np.ndarray:
    """Returns (count,) independent uniform uint64 words, a function of the label and the seed alone."""
    return Draws(f"{label}:{seed}").words(count).astype(np.uint64)


def indices(label: str, seed: int, shape: tuple[int, ...], below: int) -> np.ndarray:
    """Returns int64 indices in [0, below), drawn with replacement; ``below`` must be under 2^32.

    An index is floor(upper half of a word * below / 2^32): none is favoured by more than below / 2^32.
    """
    high = words(label, seed, int(np.prod(shape))) >> np.uint64(32)
    return (high * np.uint64(below) >> np.uint64(32)).astype(np.int64).reshape(shape)


def permutations(label: str, seed: int, count: int, size: int) -> np.ndarray:
    """Returns (count, size) int64, each row a random order of ``range(size)``."""
    keys = words(label, seed, count * size).reshape(count, size)
    return np.argsort(keys, axis=1, kind="stable").astype(np.int64)


def signs(label: str, seed: int, count: int, size: int) -> np.ndarray:
    """Returns (count, size) float64 of independent +1 and -1."""
    top = words(label, seed, count * size) >> np.uint64(63)
    return 1.0 - 2.0 * top.astype(np.float64).reshape(count, size)


def uniforms(label: str, seed: int, shape: tuple[int, ...]) -> np.ndarray:
    """Returns float64 draws from [0, 1), the upper 53 bits of each word."""
    mantissa = words(label, seed, int(np.prod(shape))) >> np.uint64(11)
    return (mantissa.astype(np.float64) * 2.0**-53).reshape(shape)
