"""Singular vector canonical correlation analysis of two representations of the same samples."""

import torch

from fishersketch.baselines.checks import UndefinedSimilarityError, as_pair, centred, check_samples
from fishersketch.errors import FisherSketchError


def svcca(
    first: torch.Tensor, second: torch.Tensor, *, variance: float = 0.99, max_components: int | None = None
) -> float:
    """Return the mean canonical correlation of the leading singular subspaces of two representations.

        SVCCA = 1 / min(c_x, c_y) * sum_k rho_k, with the rho_k of `canonical_correlations`.

    Args:
        first: Representations (n, d).
        second: Representations (n, d') of the same samples.
        variance: Share of the variance kept, in (0, 1].
        max_components: At most so many components of each, or None for no limit. With few samples 99 % of the
            variance takes nearly as many components as there are samples, and then there is no value.

    Returns:
        The mean correlation, in [0, 1]. It does not change under a shift, an orthogonal map or one scale of
        either representation.

    Raises:
        UndefinedSimilarityError: As `canonical_correlations`.
        FisherSketchError: As `canonical_correlations`.

    Note:
        Raghu, Gilmer, Yosinski, Sohl-Dickstein: SVCCA: Singular Vector Canonical Correlation Analysis for
        Deep Learning Dynamics and Interpretability, NeurIPS 2017, section 2.

    Examples:
        >>> import torch
        >>> generator = torch.Generator().manual_seed(0)
        >>> first = torch.randn(500, 4, generator=generator)
        >>> mixed = first @ torch.randn(4, 4, generator=generator)
        >>> round(svcca(first, mixed, variance=1.0), 6)
        1.0
    """
    return float(
        canonical_correlations(first, second, variance=variance, max_components=max_components).mean()
    )


def canonical_correlations(
    first: torch.Tensor, second: torch.Tensor, *, variance: float = 0.99, max_components: int | None = None
) -> torch.Tensor:
    """Return the canonical correlations of the leading singular subspaces of two representations.

    Each centred matrix X = U S V^T is cut to the fewest leading components that carry the wanted share of
    sum_k s_k^2, never fewer than one. Their canonical correlations are the singular values of U_x^T U_y.

    Args:
        first: Representations (n, d).
        second: Representations (n, d') of the same samples.
        variance: Share of the variance kept, in (0, 1].
        max_components: At most so many components of each, or None for no limit.

    Returns:
        Correlations (min(c_x, c_y),), falling, in [0, 1].

    Raises:
        UndefinedSimilarityError: Fewer than 3 samples, a representation that does not vary, or
            n <= c_x + c_y, where any two subspaces of the n - 1 centred dimensions (nearly) meet.
        FisherSketchError: Malformed matrices, or an option out of range.
    """
    first, second = as_pair(first, second)
    if not 0 < variance <= 1:
        raise FisherSketchError(f"variance={variance}: give a share above 0 and at most 1")
    if max_components is not None and max_components < 1:
        raise FisherSketchError(f"max_components={max_components}: keep at least 1")
    check_samples(len(first), 3, "SVCCA")
    left = _leading_samples("first", first, variance, max_components)  # (n, c_x)
    right = _leading_samples("second", second, variance, max_components)  # (n, c_y)
    if len(first) <= left.shape[1] + right.shape[1]:
        raise UndefinedSimilarityError(
            f"SVCCA has no value: {left.shape[1]} and {right.shape[1]} components of {len(first)} samples "
            "correlate by necessity; give more samples or lower max_components"
        )
    return torch.linalg.svdvals(left.T @ right)


def _leading_samples(
    name: str, values: torch.Tensor, variance: float, max_components: int | None
) -> torch.Tensor:
    """Return the left singular vectors (n, c) of the fewest components with the wanted variance, c >= 1."""
    left, singular, _ = torch.linalg.svd(centred(name, values), full_matrices=False)
    # Directions at rounding level are noise: at variance=1 they would enter as full correlations.
    rank = int((singular > singular[0] * max(values.shape) * torch.finfo(torch.float64).eps).sum())
    carried = singular.square().cumsum(0) / singular.square().sum()
    # The first component that reaches the share is itself kept, so at least one is.
    count = min(int((carried < variance).sum()) + 1, rank, max_components or rank)
    return left[:, :count]
