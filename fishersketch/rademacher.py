"""The dense projection: every entry of every row is an independent sign."""

from functools import cached_property

import torch

from fishersketch.draws import Draws
from fishersketch.projections import Projection

_BLOCK_ENTRIES = 1 << 22
_COLUMNS = 1 << 12


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
        rows = max(1, _BLOCK_ENTRIES // min(self.size, _COLUMNS))
        out = torch.cat([_times_signs(x, block) for block in signs.split(rows)], 1)  # (B, 2 m)
        return out[:, : self.num_features], out[:, self.num_features :]

    def multiply_adds(self) -> int:  # noqa: D102
        return 2 * self.num_features * self.size


def _times_signs(x: torch.Tensor, signs: torch.Tensor) -> torch.Tensor:
    """Returns x signs^T, (B, rows): a float32 sum over more columns at once would round too much."""
    parts = zip(x.split(_COLUMNS, 1), signs.split(_COLUMNS, 1), strict=True)
    return torch.stack([part @ block.to(x.dtype).T for part, block in parts]).sum(0)
