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
        signs = self._on("signs", lambda: self._signs, x, torch.int8)
        rows = max(1, _BLOCK_ENTRIES // self.size)
        out = torch.cat([x @ block.to(x.dtype).T for block in signs.split(rows)], 1)  # (B, 2 m)
        return out[:, : self.num_features], out[:, self.num_features :]

    def multiply_adds(self) -> int:  # noqa: D102
        return 2 * self.num_features * self.size
