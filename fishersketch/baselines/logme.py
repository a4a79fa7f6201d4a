"""LogME: how much evidence do features give for labels under a Bayesian linear model?"""

import math

import torch

from fishersketch.baselines.checks import UndefinedSimilarityError, as_labels, as_matrix, check_samples

# log10 of t, the noise variance over the weight variance, in units of the largest squared singular value.
RATIO_EXPONENTS = (-12.0, 12.0)
GRID_POINTS = 241


def logme(features: torch.Tensor, labels: torch.Tensor) -> float:
    """Return the log maximum evidence of labels given features, averaged over classes and samples.

    For each class, y is its 0/1 indicator, y = F w + noise with w ~ N(0, I / alpha) and noise ~
    N(0, I / beta), so y ~ N(0, F F^T / alpha + I / beta). LogME is the maximum over alpha and beta of
    log p(y | F) / n, averaged over classes.

    With F = U S V^T, x = U^T y and t = alpha / beta, the best alpha for a given t is
    n / q(t), q(t) = sum_k x_k^2 / (s_k^2 + t) + |y - U x|^2 / t, which leaves one function of t,

        log p = -n/2 (1 + log 2 pi) - n/2 log(q(t) / n) - 1/2 [sum_k log(s_k^2 + t) + (n - r) log t],

    with r the rank. It is searched on a grid and refined by golden sections, so the result is the maximum to
    rounding, where the published fixed-point iteration stops after a few steps and adds 1e-5 to its
    denominators. Being written over the n samples, it is right for n < d too; the form over d weights with
    log determinants of only r of them is not, since their d - r terms log alpha then stay.

    Args:
        features: Features (n, d), e.g. of a source-tuned model on the target (then not training-free).
        labels: Target classes (n,). Classes without a sample do not count.

    Returns:
        Nats per sample, averaged over classes; higher is better. It does not change under one scale of all
        features or an orthogonal map of them; there is no intercept, so a shift changes it.

    Raises:
        UndefinedSimilarityError: Fewer than 2 samples or 2 classes, features all zero, or features of rank
            below n that give a class's indicator exactly, where the evidence has no upper bound.
        FisherSketchError: Malformed features or labels.

    Note:
        You, Liu, Wang, Long: LogME: Practical Assessment of Pre-trained Models for Transfer Learning, ICML
        2021, section 4. MacKay: Bayesian Interpolation, Neural Computation 4, 1992, for the evidence.

    Examples:
        >>> import torch
        >>> generator = torch.Generator().manual_seed(0)
        >>> labels = torch.arange(60) % 3
        >>> noise = torch.randn(60, 5, generator=generator)
        >>> good = torch.nn.functional.one_hot(labels, 5) + 0.1 * noise
        >>> round(logme(good, labels), 2), round(logme(noise, labels), 2)
        (0.75, -0.87)
    """
    features = as_matrix("features", features)
    labels = as_labels("labels", labels, len(features))
    n = len(features)
    check_samples(n, 2, "LogME")
    classes, index = torch.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise UndefinedSimilarityError(
            f"LogME needs at least 2 classes, and labels holds class {int(classes[0])} alone"
        )
    left, singular, _ = torch.linalg.svd(features, full_matrices=False)
    rank = int((singular > singular[0] * max(features.shape) * torch.finfo(torch.float64).eps).sum())
    if rank == 0:
        raise UndefinedSimilarityError("features are all zero: they give no evidence")
    spectrum = (singular[:rank] / singular[0]).square()  # (r,), in (0, 1]
    indicators = torch.nn.functional.one_hot(index).double()  # (n, C)
    inside = left[:, :rank].T @ indicators  # (r, C)
    outside = (indicators - left[:, :rank] @ inside).square().sum(0)  # (C,)
    exact = ((outside <= 1e-20 * indicators.sum(0)) & (rank < n)).nonzero().flatten().tolist()
    if exact:
        raise UndefinedSimilarityError(
            f"features of rank {rank} give class {int(classes[exact[0]])} of {n} samples exactly: "
            "the evidence is unbounded; give more samples"
        )
    best = [_max_evidence(spectrum, inside[:, c].square(), float(outside[c]), n) for c in range(len(classes))]
    # The evidence is that of features / s_1, which the best alpha makes equal to that of the features.
    return sum(best) / (n * len(best))


def _max_evidence(spectrum: torch.Tensor, inside: torch.Tensor, outside: float, n: int) -> float:
    """Return the largest log evidence, in nats, over t for one class.

    Args:
        spectrum: Squared singular values (r,), the largest 1.
        inside: Squared coefficients of y on the left singular vectors (r,).
        outside: Squared norm of y outside of them.
        n: Samples.

    Returns:
        max over t of log p(y | t, best alpha).
    """

    def evidence(exponents: torch.Tensor) -> torch.Tensor:
        t = (exponents * math.log(10)).exp()[:, None]  # (g, 1)
        q = (inside / (spectrum + t)).sum(1) + outside / t[:, 0]
        log_determinant = (spectrum + t).log().sum(1) + (n - len(spectrum)) * t[:, 0].log()
        return -n / 2 * (1 + math.log(2 * math.pi) + (q / n).log()) - log_determinant / 2

    grid = torch.linspace(*RATIO_EXPONENTS, GRID_POINTS, dtype=torch.float64)
    values = evidence(grid)
    top = int(values.argmax())
    low, high = float(grid[max(top - 1, 0)]), float(grid[min(top + 1, GRID_POINTS - 1)])
    golden = (math.sqrt(5) - 1) / 2
    while high - low > 1e-9:
        probes = torch.tensor(
            [high - golden * (high - low), low + golden * (high - low)], dtype=torch.float64
        )
        lower, upper = evidence(probes).tolist()
        low, high = (low, float(probes[1])) if lower >= upper else (float(probes[0]), high)
    return max(float(values[top]), float(evidence(torch.tensor([(low + high) / 2], dtype=torch.float64))))
