"""Reproducible random draws: raw Philox words turned into signs and rows by a fixed recipe.

Higher-level generators change between releases of numpy and torch, and differ between devices.
Raw words of a counter-based bit generator do not, so one seed means the same features everywhere.
"""

import hashlib

import numpy as np
import torch


class Draws:
    """A stream of draws that depends on its label alone.

    The label's SHA-256 gives the 128-bit key of a Philox-4x64 generator (Salmon et al., SC 2011).

    Args:
        label: what the draws are for; another label gives an independent stream.

    >>> Draws("a").signs(6).tolist() == Draws("a").signs(6).tolist()
    True
    >>> sorted(Draws("a").distinct(3, 3).tolist())
    [0, 1, 2]
    """

    def __init__(self, label: str):
        digest = hashlib.sha256(label.encode()).digest()
        self._bits = np.random.Philox(key=int.from_bytes(digest[:16], "little"))

    def words(self, count: int) -> np.ndarray:
        """Returns the next (count,) raw 64-bit words, independent and uniform."""
        return np.asarray(self._bits.random_raw(count), dtype="<u8")

    def signs(self, count: int) -> torch.Tensor:
        """Returns (count,) int8 independent signs, +1 or -1 with equal probability."""
        words = self.words(-(-count // 64))
        bits = np.unpackbits(words.view(np.uint8), bitorder="little")[:count]
        return torch.from_numpy(1 - 2 * bits.astype(np.int8))

    def uniform(self, count: int, size: int) -> torch.Tensor:
        """Returns (count,) int64 independent indices below `size`, a power of two: none is favoured."""
        assert size & (size - 1) == 0
        return torch.from_numpy((self.words(count) & np.uint64(size - 1)).astype(np.int64))

    def distinct(self, count: int, size: int) -> torch.Tensor:
        """Returns (count,) int64 different indices below `size`, at least `count`, in random order."""
        assert count <= size
        order = np.argsort(self.words(size), kind="stable")
        return torch.from_numpy(order[:count].astype(np.int64))
