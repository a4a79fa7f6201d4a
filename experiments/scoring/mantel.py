"""Mantel test: do two matrices over the same domains rank their pairs alike?"""

import itertools
from dataclasses import dataclass
from math import factorial

import numpy as np

from experiments.draws import permutations
from experiments.errors import UserError
from experiments.scoring.candidates import all_others
from experiments.scoring.correlation import midranks, spearman

_EXACT_UP_TO = 8
_BLOCK_ENTRIES = 4_000_000  # of permuted matrices held at once: 32 MB
_TOLERANCE = 1e-12


@dataclass(frozen=True)
class MatrixCorrelation:
    """Spearman correlation of the pairs of two matrices.

    Attributes:
        spearman: The correlation; 0 when one matrix is constant.
        p_mantel: Two-sided permutation p: domains are exchanged, not pairs.
        p_floor: Smallest p that this number of domains, or of draws, can give.
        p_spearman: Two-sided p that takes the pairs for independent, which those of one matrix are not.
        pairs: Number of pairs.
        permutations: Number of permutations looked at.
        exact: Whether these were all.
    """

    spearman: float
    p_mantel: float
    p_floor: float
    p_spearman: float
    pairs: int
    permutations: int
    exact: bool


def matrix_correlation(
    first: np.ndarray, second: np.ndarray, *, seed: int, resamples: int = 9_999, diagonal: bool = False
) -> MatrixCorrelation:
    """Mantel test (Mantel, 1967) with Spearman's correlation; the matrices need not be symmetric.

    Rows and columns of one matrix are permuted together, which keeps what its pairs share. Up to T = 8
    all T! permutations are looked at; beyond, p = (k + 1) / (n + 1) from n random ones, k as extreme or more.

    Args:
        first: Matrix (T, T); NaN ties below every number.
        second: Matrix (T, T) over the same domains.
        seed: Seed of the random permutations.
        resamples: Number of random permutations.
        diagonal: Whether each domain's pair with itself counts as well; it stays one in every permutation.

    Returns:
        The correlation and its p.

    Raises:
        UserError: For shapes that differ or fewer than three domains.
    """
    from scipy.stats import spearmanr

    first, second = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    count = len(first)
    if first.shape != (count, count) or second.shape != first.shape or count < 3:
        raise UserError(
            f"matrices {first.shape} and {second.shape}: need two (T, T) of three or more domains"
        )
    pairs = np.ones((count, count), dtype=bool) if diagonal else all_others(count)
    rho = spearman(first[pairs], second[pairs])
    a, b = _centred_ranks(first, pairs), _centred_ranks(second, pairs)
    exact = count <= _EXACT_UP_TO
    if exact:
        orders = np.array(list(itertools.permutations(range(count))))
    else:
        orders = permutations("mantel", seed, resamples, count)
    observed, slack = abs(np.sum(a * b)), _TOLERANCE * np.sqrt(np.sum(a * a) * np.sum(b * b))
    extreme, step = 0, max(1, _BLOCK_ENTRIES // count**2)
    for block in np.split(orders, range(step, len(orders), step)):
        moved = a[block[:, :, None], block[:, None, :]]  # (block, T, T)
        extreme += int(np.sum(np.abs(np.einsum("nij,ij->n", moved, b)) >= observed - slack))
    p = extreme / len(orders) if exact else (extreme + 1) / (len(orders) + 1)
    floor = 1 / factorial(count) if exact else 1 / (len(orders) + 1)
    constant = not a.any() or not b.any()
    plain = 1.0 if constant else float(spearmanr(midranks(first[pairs]), midranks(second[pairs])).pvalue)
    return MatrixCorrelation(rho, p, floor, plain, int(pairs.sum()), len(orders), exact)


def _centred_ranks(matrix: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """Returns the ranks of the pairs about their mean, 0 elsewhere: they move as the entries do."""
    ranks = np.zeros(matrix.shape)
    ranks[pairs] = midranks(matrix[pairs])
    ranks[pairs] -= ranks[pairs].mean()
    return ranks
