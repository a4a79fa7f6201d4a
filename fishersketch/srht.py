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
    def _draws(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        factors = self._factors
        stacks = -(-2 * self.num_features // factors.padded)
        pairs = -(-self.num_features // stacks)
        draws = Draws(self.label)
        signs = draws.signs(stacks * self.size).view(stacks, self.size)
        rows = draws.uniform(2 * stacks * pairs, factors.padded).view(2, stacks, pairs)
        return signs, rows[0], rows[1]

    @cached_property
    def _factors(self) -> HadamardFactors:
        return HadamardFactors(self.size)

    def project(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:  # noqa: D102
        signs, left, right = self._draws
        factors = self._factors
        rows = self._on("rows", lambda: factors.first()[:, : factors.used], x)  # (p, c)
        columns = self._on("columns", factors.second, x)  # (q, q)
        lefts, rights = [], []
        for stack in range(len(signs)):
            signed = factors.fold(x * self._on(f"signs{stack}", lambda: signs[stack], x))  # noqa: B023
            transform = hadamard_transform(signed, rows, columns).flatten(1)  # (B, P)
            lefts.append(transform[:, left[stack].to(x.device)])
            rights.append(transform[:, right[stack].to(x.device)])
        return torch.cat(lefts, 1)[:, : self.num_features], torch.cat(rights, 1)[:, : self.num_features]

    def multiply_adds(self) -> int:  # noqa: D102
        factors = self._factors
        per_transform = factors.rows * (factors.used + factors.columns) * factors.columns
        return len(self._draws[0]) * per_transform
