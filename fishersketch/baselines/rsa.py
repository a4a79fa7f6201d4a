"""Representational similarity analysis: do two representations find the same samples alike?"""

from typing import Literal

import torch

from fishersketch.baselines.checks import UndefinedSimilarityError, as_pair, check_samples
from fishersketch.errors import FisherSketchError


def rsa(
    first: torch.Tensor,
    second: torch.Tensor,
    *,
    dissimilarity: Literal["correlation", "euclidean"] = "correlation",
    comparison: Literal["spearman", "pearson"] = "spearman",
) -> float:
    """Correlate the upper triangles of two representational dissimilarity matrices.

    D[s, t] is 1 minus the Pearson correlation of samples s and t over dimensions ("correlation"), or their
    Euclidean distance ("euclidean"); the result is the Spearman (ties share their mean rank) or Pearson
    correlation between the n (n - 1) / 2 entries D[s, t], s < t, of the two representations.

    Args:
        first: Representations (n, d).
        second: Representations (n, d') of the same samples.
        dissimilarity: How two samples are compared.
        comparison: How the two matrices are compared.

    Returns:
        The correlation, in [-1, 1]. It does not change under one scale for all dimensions; with Euclidean
        distances not under a shift or an orthogonal map either.

    Raises:
        UndefinedSimilarityError: Fewer than 3 samples, all dissimilarities equal, or a sample whose
            dimensions are all equal, which correlates with nothing.
        FisherSketchError: Malformed matrices or an unknown word.

    Note:
        Kriegeskorte, Mur, Bandettini: Representational similarity analysis, Frontiers in Systems Neuroscience
        2:4, 2008, whose choices (correlation distance, Spearman) are the defaults.

    Examples:
        >>> import torch
        >>> first = torch.tensor([[0.0], [1.0], [3.0]])
        >>> second = torch.tensor([[0.0], [2.0], [3.0]])
        >>> round(rsa(first, second, dissimilarity="euclidean"), 6)  # distances 1, 3, 2 and 2, 3, 1
        0.5
    """
    first, second = as_pair(first, second)
    check_samples(len(first), 3, "RSA")
    if comparison not in ("spearman", "pearson"):
        raise FisherSketchError(f'comparison={comparison!r}: give "spearman" or "pearson"')
    entries = [_dissimilarities(name, m, dissimilarity) for name, m in (("first", first), ("second", second))]
    if comparison == "spearman":
        entries = [_ranks(values) for values in entries]
    units = []
    for name, values in zip(("first", "second"), entries, strict=True):
        deviation = values - values.mean()
        if float(deviation.norm()) <= 1e-12 * float(values.norm()):
            raise UndefinedSimilarityError(f"RSA has no value: all dissimilarities in {name} are equal")
        units.append(deviation / deviation.norm())
    return float(units[0] @ units[1])


def _dissimilarities(name: str, values: torch.Tensor, dissimilarity: str) -> torch.Tensor:
    """Return the upper triangle (n (n - 1) / 2,) of the dissimilarity matrix, row by row.

    Args:
        name: What the matrix is called in the error.
        values: Representations (n, d), float64.
        dissimilarity: "correlation" or "euclidean".

    Returns:
        The entries above the diagonal.

    Raises:
        UndefinedSimilarityError: A sample's dimensions are all equal.
        FisherSketchError: The word is neither.
    """
    if dissimilarity == "euclidean":
        return torch.nn.functional.pdist(values)
    if dissimilarity != "correlation":
        raise FisherSketchError(f'dissimilarity={dissimilarity!r}: give "correlation" or "euclidean"')
    deviations = values - values.mean(1, keepdim=True)
    norms = deviations.norm(dim=1, keepdim=True)
    flat = (norms <= 1e-12 * values.norm(dim=1, keepdim=True)).flatten().nonzero().flatten().tolist()
    if flat:
        raise UndefinedSimilarityError(
            f"{name} holds sample {flat[0]} whose dimensions are all equal: correlation distance has no value"
        )
    units = deviations / norms
    rows, columns = torch.triu_indices(len(values), len(values), 1)
    return (1 - units @ units.T)[rows, columns]


def _ranks(values: torch.Tensor) -> torch.Tensor:
    """Return ranks from 1, equal values sharing the mean of theirs, float64."""
    _, group, counts = torch.unique(values, sorted=True, return_inverse=True, return_counts=True)
    last = counts.cumsum(0).double()
    return (last - (counts - 1) / 2)[group]
