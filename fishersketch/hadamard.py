"""Sylvester-Hadamard matrices and the fast transform by two matrix products."""

import torch


def hadamard_matrix(order: int) -> torch.Tensor:
    """Returns the (order, order) int8 Sylvester-Hadamard matrix: entries (-1)^popcount(row & column).

    Args:
        order: rows, a power of two.

    >>> hadamard_matrix(2).tolist()
    [[1, 1], [1, -1]]
    """
    matrix = torch.ones(1, 1, dtype=torch.int8)
    while len(matrix) < order:
        matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([matrix, -matrix], 1)], 0)
    return matrix


class HadamardFactors:
    """How a vector is folded so that H_P = H_p (x) H_q becomes two small matrix products.

    P = p q is the vector's size padded to a power of two, with q <= p <= 2 q. A vector is laid out as
    (c, q) with c = ceil(size / q): rows c to p would hold zeros only, so they are never stored.

    Args:
        size: entries of a vector.

    >>> factors = HadamardFactors(49152)
    >>> factors.rows, factors.columns, factors.used, factors.padded
    (256, 256, 192, 65536)
    """

    def __init__(self, size: int):
        bits = max(size - 1, 0).bit_length()
        self.size = size
        self.columns = 1 << (bits // 2)
        self.rows = 1 << (bits - bits // 2)
        self.padded = self.rows * self.columns
        self.used = -(-size // self.columns)

    def first(self) -> torch.Tensor:
        """Returns H_p, (p, p) int8."""
        return hadamard_matrix(self.rows)

    def second(self) -> torch.Tensor:
        """Returns H_q, (q, q) int8."""
        return hadamard_matrix(self.columns)

    def fold(self, x: torch.Tensor) -> torch.Tensor:
        """Returns (..., size) vectors as (..., c, q); copies only where the size is no multiple of q."""
        missing = self.used * self.columns - self.size
        if missing:
            x = torch.nn.functional.pad(x, (0, missing))
        return x.unflatten(-1, (self.used, self.columns))


def hadamard_transform(x: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Applies rows of H_p (x) H_q to folded vectors.

    Args:
        x: (..., c, q) folded vectors.
        left: (R, c) any rows of H_p, cut to the columns that a vector uses.
        right: (q, S) any columns of H_q.

    Returns:
        (..., R, S) entries of the transform.
    """
    return torch.matmul(torch.matmul(left, x), right)
