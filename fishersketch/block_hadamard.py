"""The block-subsampled Hadamard projection: a few whole rows of blocks, no full transform, no gather."""

from functools import cached_property

import torch

from fishersketch.draws import Draws
from fishersketch.hadamard import HadamardFactors
from fishersketch.projections import Projection


class BlockHadamard(Projection):
    r"""Pairs a block of rows of the Hadamard matrix with a block of its columns, at a cost near reading x.

    With x folded to (p, q) and signs D, the left projection keeps R random rows of H_p and all of H_q,
    the right one R random columns of H_q and q random rows of H_p:

        left  = H_p[r, :]  (D * x)             H_q          (R, q)
        right = H_p[s, :] diag(g) (D * x) diag(h) H_q[:, t]  (q, R), transposed

    so that feature (i, j) pairs row (r_i, j) with row (s_j, t_i): no two features share their pair of
    rows in either factor, which plain pairing along a block does and which ruins it. The second signs
    g (x) h are folded into the small matrices, so x is multiplied by signs once.

    Unbiased for every size and every choice of rows: with D, g and h independent uniform signs,
    E[D_u D_u' (D g h)_v (D g h)_v'] needs v = v' by g (x) h and then u = u' by D, so
    E[phi(x) phi(y)] = sum_u sum_v x_u y_u x_v y_v = (x . y)^2.

    A block gives at most q^2 features; for more, further sign diagonals are stacked.
    Multiply-adds of a vector: about 2 m (size / q) + 2 m q, against 2 m size of a dense projection.

    Two vectors that lie within one row or one column of the fold, such as errors on two tokens whose
    numbers share their last log2(q) bits, see about R independent features and not R q. That is noise of
    one kernel, and means over samples average most of it out.

    Source:
        Block-subsampled rows as in Balabanov et al., Block Subsampled Randomized Hadamard Transform,
        arXiv:2210.11295; the crossed pairing and the folded second signs are ours.
    """

    @cached_property
    def _factors(self) -> HadamardFactors:
        return HadamardFactors(self.size)

    @property
    def _layout(self) -> tuple[int, int]:
        """Number of stacked sign diagonals and rows R of each block."""
        q = self._factors.columns
        stacks = -(-self.num_features // (q * q))
        return stacks, -(-self.num_features // (stacks * q))

    @cached_property
    def _draws(self) -> tuple[torch.Tensor, ...]:
        factors = self._factors
        stacks, rows = self._layout
        c, q = factors.used, factors.columns
        draws = Draws(self.label)
        signs = draws.signs(stacks * c * q).view(stacks, c, q)
        h_p, h_q = factors.first()[:, :c], factors.second()
        left, right_rows, right_columns = [], [], []
        for _ in range(stacks):
            left.append(h_p[draws.distinct(rows, factors.rows)])
            right_rows.append(h_p[draws.distinct(q, factors.rows)] * draws.signs(c))
            right_columns.append(h_q[:, draws.distinct(rows, q)] * draws.signs(q)[:, None])
        return signs, torch.stack(left), h_q, torch.stack(right_rows), torch.stack(right_columns)

    def project(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:  # noqa: D102
        names = ("signs", "left", "h_q", "right_rows", "right_columns")
        signs, left, h_q, right_rows, right_columns = (
            self._on(name, lambda: self._draws[index], x)  # noqa: B023
            for index, name in enumerate(names)
        )
        batch, m = len(x), self.num_features
        stacks, c, q = signs.shape
        folded = self._factors.fold(x)  # (B, c, q)
        signed = torch.mul(folded, signs[:, None], out=self._scratch((stacks, batch, c, q), x))
        wide = left[:, None].expand(-1, batch, -1, -1).flatten(0, 1)  # a copy only where there are stacks
        lefts = wide.bmm(signed.flatten(0, 1)) @ h_q  # (stacks B, R, q)
        half = signed.view(stacks, batch * c, q).bmm(right_columns)  # (stacks, B c, R)
        # Turned over while it is small, so that both sides come out as (R, q).
        half = half.view(stacks, batch, c, -1).transpose(2, 3).reshape(stacks, -1, c)  # (stacks, B R, c)
        rights = half.bmm(right_rows.transpose(1, 2))  # (stacks, B R, q)
        sides = (side.view(stacks, batch, -1).transpose(0, 1) for side in (lefts, rights))
        first, second = (side.reshape(batch, -1)[:, :m] for side in sides)
        return first, second

    def multiply_adds(self) -> int:  # noqa: D102
        stacks, rows = self._layout
        c, q = self._factors.used, self._factors.columns
        left = rows * c * q + rows * q * q
        right = c * q * rows + q * c * rows
        return stacks * (c * q + left + right)
