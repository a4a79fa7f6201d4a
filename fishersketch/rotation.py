"""A fixed rotation that spreads a signature's few large features over all, so that few bits hold it well."""

from functools import cache

import torch

from fishersketch.draws import Draws
from fishersketch.hadamard import HadamardFactors, hadamard_transform


def rotate(vector: torch.Tensor) -> torch.Tensor:
    r"""Returns an orthogonal transform of a vector whose entries are close to normally distributed.

    Means of random Maclaurin features have heavy tails (kurtosis near 7): a step that fits the many small
    ones cuts the few large ones off, which all tasks share, so that their cosines come out too high.
    Random signs and a Hadamard transform H / sqrt(P) on the largest power of two P <= m, at both ends of
    the vector where m is no power of two, leave inner products as they are.

    Args:
        vector: (m,) float64.

    Returns:
        (m,) float64 of the same norm.

    Source:
        Suresh et al., Distributed Mean Estimation with Limited Communication, ICML 2017, Section 3.
    """
    for start in _starts(len(vector)):
        vector = _transform(vector, start, signs_first=True)
    return vector


def rotate_back(vector: torch.Tensor) -> torch.Tensor:
    """Returns the (m,) vector that `rotate` maps to the given one."""
    for start in reversed(_starts(len(vector))):
        vector = _transform(vector, start, signs_first=False)
    return vector


def _starts(size: int) -> list[int]:
    power = 1 << (size.bit_length() - 1)
    return [0] if power == size else [0, size - power]


@cache
def _signs(power: int) -> torch.Tensor:
    return Draws(f"fishersketch/rotation/{power}").signs(power).to(torch.float64)


def _transform(vector: torch.Tensor, start: int, signs_first: bool) -> torch.Tensor:
    power = 1 << (len(vector).bit_length() - 1)
    factors, signs = HadamardFactors(power), _signs(power)
    part = vector[start : start + power]
    part = part * signs if signs_first else part
    left, right = (matrix.to(torch.float64) for matrix in (factors.first(), factors.second()))
    part = hadamard_transform(factors.fold(part), left, right).flatten() / power**0.5
    part = part if signs_first else part * signs
    return torch.cat([vector[:start], part, vector[start + power :]])
