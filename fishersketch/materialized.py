"""The head Fisher matrix itself, for small d K: a check of the routes that never form it."""

import torch

from fishersketch.errors import FisherSketchError
from fishersketch.kernel_sums import KernelSums, Samples

MOST_ENTRIES = 8192


def fisher_matrix(activations: torch.Tensor, errors: torch.Tensor) -> torch.Tensor:
    """Returns F = E[g g^T] with g = vec(e a^T), (d K, d K) float64.

    Args:
        activations: (N, d).
        errors: (N, K).

    Returns:
        The matrix.

    Raises:
        FisherSketchError: d K is above 8,192 (a matrix of 512 MiB).
    """
    size = activations.shape[1] * errors.shape[1]
    if size > MOST_ENTRIES:
        raise FisherSketchError(
            f"d K = {size}: the materialised route takes at most {MOST_ENTRIES}; use 'gram'"
        )
    gradients = (errors[:, :, None] * activations[:, None, :]).flatten(1).to(torch.float64)  # (N, d K)
    return gradients.T @ gradients / len(gradients)


def materialized_kernel_sums(first: Samples, second: Samples) -> KernelSums:
    """Returns the kernel sums between tokens by way of F, M and Gamma of each half.

    Args:
        first: one task.
        second: the other, or the same object for self terms.
    """
    counts_first, moments_first = _moments(first)
    counts_second, moments_second = _moments(second)
    sums = []
    for kind in range(3):
        inner = torch.zeros(2, 2, dtype=torch.float64)
        for u in range(2):
            for v in range(2):
                inner[u, v] = (moments_first[u][kind] * moments_second[v][kind]).sum()
        sums.append(inner * counts_first[:, None] * counts_second[None, :])
    cross = torch.zeros(2, 2, 2, dtype=torch.float64)
    for h in range(2) if first is second else ():
        for u in range(2):
            for v in range(2):
                separable = torch.kron(moments_second[v][2], moments_second[u][1])
                cross[h, u, v] = (moments_first[h][0] * separable).sum()
    cross *= counts_first[:, None, None] * counts_second[None, :, None] * counts_second[None, None, :]
    return KernelSums(sums[0], sums[1], sums[2], cross, counts_first, counts_second)


def _moments(samples: Samples) -> tuple[torch.Tensor, list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]]:
    """Returns the counts and (F, M, Gamma) of each half; an empty half has zeros."""
    halves = samples.halves()
    moments = []
    for half in range(2):
        a, e = samples.activations[halves == half].double(), samples.errors[halves == half].double()
        n = max(len(a), 1)
        zero = torch.zeros(a.shape[1] * e.shape[1], a.shape[1] * e.shape[1], dtype=torch.float64)
        moments.append((fisher_matrix(a, e) if len(a) else zero, a.T @ a / n, e.T @ e / n))
    return torch.bincount(halves, minlength=2).double(), moments
