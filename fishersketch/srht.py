"""The subsampled randomised Hadamard transform (SRHT): random signs, a full transform, random rows."""

from functools import cached_property

import torch

from fishersketch.draws import Draws
from fishersketch.hadamard import HadamardFactors, hadamard_transform
from fishersketch.projections import Projection


class SubsampledHadamard(Projection):
    r"""Rows of H D, the Hadamard matrix with its columns' signs drawn at random.

    One transform serves both rows of a pair: with row numbers r and s independent and uniform (r = s
    allowed) and one sign diagonal D, E[phi(x) phi(y)] = (x . y)^2 exactly, whatever the padded size P.
    Of one transform at most P / 2 pairs are taken; for more, further sign diagonals are stacked.

    Source:
        Ailon and Chazelle, The Fast Johnson-Lindenstrauss Transform, SIAM J. Comput. 2009; Tropp 2011.
    """

    @cached_property
    def _factors(self) -> HadamardFactors:
        return HadamardFactors(self.size)

    @property
    def _layout(self) -> tuple[int, int]:
        """Number of stacked sign diagonals and pairs of rows taken of each."""
        stacks = -(-self.num_features // max(1, self._factors.padded // 2))
        return stacks, -(-self.num_features // stacks)

    @cached_property
    def _draws(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        stacks, pairs = self._layout
        padded, m = self._factors.padded, self.num_features
        draws = Draws(self.label)
        signs = draws.signs(stacks * self.size).view(stacks, self.size)
        rows = draws.uniform(2 * stacks * pairs, padded).view(2, stacks, pairs)
        rows = (rows + padded * torch.arange(stacks)[:, None]).flatten(1)[:, :m]  # counted through the stacks
        return signs, rows[0], rows[1]

    def project(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:  # noqa: D102
        factors = self._factors
        signs = self._on("signs", lambda: self._draws[0], x)  # (stacks, size)
        h_p = self._on("h_p", lambda: factors.first()[:, : factors.used], x)  # (p, c)
        h_q = self._on("h_q", factors.second, x)  # (q, q)
        left, right = (self._on(f"rows{i}", lambda: self._draws[i], x, torch.int64) for i in (1, 2))  # noqa: B023
        signed = factors.fold(x[:, None] * signs)  # (B, stacks, c, q)
        transform = hadamard_transform(signed, h_p, h_q).flatten(1)  # (B, stacks P)
        return transform[:, left], transform[:, right]

    def multiply_adds(self) -> int:  # noqa: D102
        factors = self._factors
        transform = factors.rows * (factors.used + factors.columns) * factors.columns
        return self._layout[0] * (self.size + transform)
