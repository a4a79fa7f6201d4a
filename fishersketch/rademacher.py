"""The dense projection: every entry of every row is an independent sign."""

from functools import cached_property

import torch

from fishersketch.draws import Draws
from fishersketch.projections import Projection

_BLOCK_ENTRIES = 1 << 22


class Rademacher(Projection):
    """Independent signs throughout: the reference that faster projections are measured against.

    The signs are kept as one byte each, 2 m size bytes in all, and turned into floats a block of rows
    at a time, so that no second matrix of that size exists.

    >>> x = torch.tensor([[3.0, 4.0]], dtype=torch.float64)
    >>> Rademacher(2, 4, "doc").features(x).shape
    torch.Size([1, 4])
    """

    @cached_property
    def _signs(self) -> torch.Tensor:
        return Draws(self.label).signs(2 * self.num_features * self.size).view(-1, self.size)  # (2 m, size)

    def project(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:  # noqa: D102
        out = x.new_empty(len(x), 2 * self.num_features)
        rows = max(1, _BLOCK_ENTRIES // self.size)
        signs = self._signs_on(x.device)
        for start in range(0, 2 * self.num_features, rows):
            block = signs[start : start + rows].to(x.dtype)  # (rows, size)
            torch.matmul(x, block.T, out=out[:, start : start + rows])
        return out[:, : self.num_features], out[:, self.num_features :]

    def _signs_on(self, device: torch.device) -> torch.Tensor:
        key = ("signs", device)
        if key not in self._cast:
            self._cast[key] = self._signs.to(device)
        return self._cast[key]

    def multiply_adds(self) -> int:  # noqa: D102
        return 2 * self.num_features * self.size
