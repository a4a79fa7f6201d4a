"""LEEP: how well do a source model's own predicted labels give the target's?"""

import torch

from fishersketch.baselines.checks import UndefinedSimilarityError, as_labels, as_matrix, check_samples
from fishersketch.errors import FisherSketchError


def leep(source_probabilities: torch.Tensor, labels: torch.Tensor) -> float:
    """Return the log expected empirical prediction of target labels from source predictions.

    With theta(x)_z the source model's probability of its label z, the predictor of the target's labels takes
    no training:

        P(y, z) = 1/n sum_{t: y_t = y} theta(x_t)_z,
        P(y | x) = sum_z P(y, z) / P(z) theta(x)_z,
        LEEP = 1/n sum_t log P(y_t | x_t).

    Args:
        source_probabilities: Source i's label distribution on the target's inputs (n, Z); rows sum to 1.
        labels: The target's classes (n,).

    Returns:
        Nats per sample, at most 0; higher is better. Source and target are not exchangeable: LEEP(i -> j).

    Raises:
        UndefinedSimilarityError: Fewer than 2 samples or 2 target classes.
        FisherSketchError: Malformed inputs, or rows that are no probabilities.

    Note:
        Nguyen, Hassner, Seeger, Archambeau: LEEP, ICML 2020, equations 1 and 2.

    Examples:
        >>> import torch
        >>> certain = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
        >>> leep(certain, torch.tensor([7, 7, 3, 3]))
        0.0
        >>> round(leep(certain, torch.tensor([7, 3, 7, 3])), 4)  # log 1/2
        -0.6931
    """
    probabilities = as_matrix("source_probabilities", source_probabilities)
    labels = as_labels("labels", labels, len(probabilities))
    check_samples(len(labels), 2, "LEEP")
    sums = probabilities.sum(1)
    if float(probabilities.min()) < 0 or float((sums - 1).abs().max()) > 1e-3:
        raise FisherSketchError(
            f"source_probabilities has entries from {float(probabilities.min()):.4g} and rows that sum to "
            f"{float(sums.min()):.4g} to {float(sums.max()):.4g}: give the softmax over source labels"
        )
    classes, index = torch.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise UndefinedSimilarityError(
            f"LEEP needs at least 2 classes, and labels holds class {int(classes[0])} alone"
        )
    probabilities = probabilities / sums[:, None]
    joint = torch.zeros(len(classes), probabilities.shape[1], dtype=torch.float64)
    joint.index_add_(0, index, probabilities / len(labels))  # (C, Z)
    marginal = joint.sum(0)  # (Z,)
    # A source label that is never predicted has no conditional and weighs nothing.
    conditional = joint[:, marginal > 0] / marginal[marginal > 0]
    predicted = (conditional[index] * probabilities[:, marginal > 0]).sum(1)  # (n,)
    return float(predicted.log().mean())
