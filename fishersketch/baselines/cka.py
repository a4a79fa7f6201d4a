"""Linear centred kernel alignment of two representations of the same samples."""

import math

import torch

from fishersketch.baselines.checks import UndefinedSimilarityError, as_pair, centred, check_samples


def linear_cka(first: torch.Tensor, second: torch.Tensor, *, debiased: bool = False) -> float:
    """Compare two representations of the same samples by linear CKA.

    With X and Y the column-centred matrices, k_t = |x_t|^2 and l_t = |y_t|^2,

        CKA = h(X, Y) / sqrt(h(X, X) h(Y, Y)),
        biased:   h = |X^T Y|_F^2  =  tr(K H L H),
        debiased: h = |X^T Y|_F^2 - n/(n - 2) sum_t k_t l_t + (sum_t k_t)(sum_t l_t) / ((n - 1)(n - 2)).

    The debiased h is n (n - 3) times HSIC_1, the unbiased estimate of the Hilbert-Schmidt independence
    criterion; the ratio of three unbiased estimates keeps a smaller bias of its own. The biased form tends
    to 1 for unrelated representations with more dimensions than samples.

    Args:
        first: Representations (n, d).
        second: Representations (n, d') of the same samples; d' may differ from d.
        debiased: Use HSIC_1 in place of the biased estimate.

    Returns:
        The alignment: in [0, 1] when biased; possibly negative when debiased. It does not change under a
        shift, an orthogonal map or one scale for all dimensions of either representation.

    Raises:
        UndefinedSimilarityError: Fewer than 3 samples (4 when debiased), a representation that does not vary,
            or a debiased self-alignment that is not positive.
        FisherSketchError: Malformed matrices.

    Note:
        Kornblith, Norouzi, Lee, Hinton: Similarity of Neural Network Representations Revisited, ICML 2019,
        section 3. Song, Smola, Gretton, Borgwardt, Bedo: Supervised Feature Selection via Dependence
        Estimation, ICML 2007, for the unbiased estimate.

    Examples:
        >>> import torch
        >>> generator = torch.Generator().manual_seed(0)
        >>> first = torch.randn(20, 200, generator=generator)
        >>> unrelated = torch.randn(20, 200, generator=generator)
        >>> round(linear_cka(first, unrelated), 2), round(linear_cka(first, unrelated, debiased=True), 2)
        (0.9, -0.09)
    """
    first, second = as_pair(first, second)
    # The biased form of any 2 samples is 1.
    check_samples(len(first), 4 if debiased else 3, "debiased CKA" if debiased else "CKA")
    first, second = centred("first", first), centred("second", second)
    similarity = _hsic if not debiased else _unbiased_hsic
    own = similarity(first, first), similarity(second, second)
    if min(own) <= 0:
        raise UndefinedSimilarityError(
            f"debiased CKA has no value: the unbiased self-alignments are {own[0]:.3g} and {own[1]:.3g}; "
            "give more samples"
        )
    return similarity(first, second) / math.sqrt(own[0] * own[1])


def _hsic(first: torch.Tensor, second: torch.Tensor) -> float:
    """Return |X^T Y|_F^2 of centred matrices, over features or over samples, whichever is smaller."""
    if len(first) > math.sqrt(first.shape[1] * second.shape[1]):
        return float((first.T @ second).square().sum())
    return float(((first @ first.T) * (second @ second.T)).sum())


def _unbiased_hsic(first: torch.Tensor, second: torch.Tensor) -> float:
    """Return n (n - 3) HSIC_1 of centred matrices, for which the Gram matrices' row sums are zero."""
    n = len(first)
    own, other = first.square().sum(1), second.square().sum(1)  # (n,), (n,)
    shared = float(own @ other) * n / (n - 2)
    return _hsic(first, second) - shared + float(own.sum() * other.sum()) / ((n - 1) * (n - 2))
