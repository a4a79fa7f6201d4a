"""What every baseline checks about its inputs, and the error for a measure that has no value."""

import torch

from fishersketch.errors import FisherSketchError


class UndefinedSimilarityError(FisherSketchError):
    """Valid inputs for which the measure has no value: too few samples, or nothing that varies."""


def as_matrix(name: str, values: torch.Tensor) -> torch.Tensor:
    """Return a finite matrix in float64 on the CPU, where every baseline computes.

    Args:
        name: What the matrix is called in the error.
        values: Matrix (n, d), n samples in rows, any floating type and device.

    Returns:
        The matrix (n, d), float64.

    Raises:
        FisherSketchError: The values are no matrix, hold nothing, or hold NaN or infinities.
    """
    if values.ndim != 2:
        raise FisherSketchError(
            f"{name} has shape {tuple(values.shape)}: give a matrix (samples, dimensions)"
        )
    if values.shape[1] == 0:
        raise FisherSketchError(f"{name} has no columns: give at least one dimension")
    check_finite(name, values)
    return values.detach().to("cpu", torch.float64)


def as_pair(first: torch.Tensor, second: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return two matrices whose rows are the same samples.

    Args:
        first: Representations (n, d) of n samples.
        second: Representations (n, d') of the same samples, in the same order.

    Returns:
        Both, float64 on the CPU.

    Raises:
        FisherSketchError: A matrix is malformed, or the numbers of samples differ.
    """
    first, second = as_matrix("first", first), as_matrix("second", second)
    if len(first) != len(second):
        raise FisherSketchError(
            f"first has {len(first)} samples and second {len(second)}: their rows must be the same samples"
        )
    return first, second


def as_labels(name: str, labels: torch.Tensor, num_samples: int) -> torch.Tensor:
    """Return class labels as int64 on the CPU.

    Args:
        name: What the labels are called in the error.
        labels: Labels (n,), whole numbers from 0.
        num_samples: The n that the labels must have.

    Returns:
        The labels (n,), int64.

    Raises:
        FisherSketchError: The labels are no vector of n whole numbers from 0.
    """
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise FisherSketchError(f"{name} has type {labels.dtype}: give whole numbers")
    if labels.shape != (num_samples,):
        raise FisherSketchError(
            f"{name} has shape {tuple(labels.shape)}: give one label a sample, ({num_samples},)"
        )
    labels = labels.detach().to("cpu", torch.int64)
    if num_samples and int(labels.min()) < 0:
        raise FisherSketchError(f"{name} holds {int(labels.min())}: drop the ignored positions first")
    return labels


def check_finite(name: str, values: torch.Tensor) -> None:
    """Refuse NaN and infinities.

    Args:
        name: What the values are called in the error.
        values: Any tensor.

    Raises:
        FisherSketchError: A value is NaN or infinite.
    """
    if not bool(torch.isfinite(values).all()):
        kind = "NaN" if bool(torch.isnan(values).any()) else "infinite values"
        raise FisherSketchError(f"{name} holds {kind}: remove those samples or compute them in float32")


def check_samples(num_samples: int, needed: int, what: str) -> None:
    """Refuse fewer samples than a measure needs.

    Args:
        num_samples: Samples given.
        needed: Samples that the measure needs.
        what: The measure, as it reads in the error.

    Raises:
        UndefinedSimilarityError: There are too few.
    """
    if num_samples < needed:
        raise UndefinedSimilarityError(
            f"{what} needs at least {needed} samples, and {num_samples} were given"
        )


def centred(name: str, values: torch.Tensor) -> torch.Tensor:
    """Subtract the column means, and refuse a matrix whose rows are all alike.

    Args:
        name: What the matrix is called in the error.
        values: Matrix (n, d), float64.

    Returns:
        The centred matrix (n, d).

    Raises:
        UndefinedSimilarityError: No column varies by more than rounding.
    """
    result = values - values.mean(0)
    if float(result.norm()) <= 1e-12 * float(values.norm()):
        raise UndefinedSimilarityError(
            f"{name} does not vary from sample to sample: the measure has no value"
        )
    return result
