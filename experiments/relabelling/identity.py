"""Theorem 4.2 on random tasks: alignment of head Fisher matrices = cosine of kernel mean embeddings."""

from typing import Any

import torch

from fishersketch import exact_align
from fishersketch.materialized import fisher_matrix

_SHAPES = ((3, 5), (8, 16), (16, 40), (24, 100))  # (d, K)


def identity_errors(tasks: int, samples: int, seed: int) -> dict[str, Any]:
    """Compares, in float64, cosines of explicit F, M and Gamma with kernel means over pairs of samples.

    A task's activations are Gaussian around a centre of its own, its errors those of a random softmax head
    with labels from another one, so that activations and errors depend on each other.

    Args:
        tasks: Tasks of each shape (d, K), of 3 x 5 to 24 x 100.
        samples: Samples of a task.
        seed: Draws the tasks.

    Returns:
        ``max_error``, the largest difference between the cosine of explicit F and the kernel's, of all pairs;
        ``factorisation_error``, the largest |S_ae - S_a S_e rho| with all four from explicit matrices;
        ``factor_error``, the largest difference of S_a, S_e and rho between the routes; and the ``pairs``.
    """
    generator = torch.Generator().manual_seed(seed)
    errors = {"max_error": 0.0, "factorisation_error": 0.0, "factor_error": 0.0}
    for size, outputs in _SHAPES:
        drawn = [_task(samples, size, outputs, generator) for _ in range(tasks)]
        kernels = exact_align([(a, e, None) for a, e in drawn], "plain")
        joint, activation, error = (
            _inner([matrix(a, e).flatten() for a, e in drawn])
            for matrix in (fisher_matrix, lambda a, e: a.T @ a / len(a), lambda a, e: e.T @ e / len(e))
        )
        ratio = joint / (activation * error)  # c_ij
        coupling = _cosine(ratio)
        found = {
            "max_error": _cosine(joint) - kernels.joint,
            "factorisation_error": _cosine(joint) - _cosine(activation) * _cosine(error) * coupling,
            "factor_error": torch.stack([
                _cosine(activation) - kernels.activation,
                _cosine(error) - kernels.error,
                coupling - kernels.coupling,
            ]),
        }
        errors = {name: max(errors[name], float(found[name].abs().max())) for name in errors}
    return errors | {"pairs": len(_SHAPES) * tasks * (tasks - 1) // 2, "samples": samples}


def _task(
    samples: int, size: int, outputs: int, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    activations = normal(samples, size) + normal(1, size)
    head, truth = normal(size, outputs), normal(size, outputs)
    labels = (activations @ truth + normal(samples, outputs)).argmax(1)
    errors = torch.softmax(activations @ head, dim=1)
    errors[torch.arange(samples), labels] -= 1.0
    return activations, errors


def _inner(vectors: list[torch.Tensor]) -> torch.Tensor:
    stacked = torch.stack(vectors)
    return stacked @ stacked.T


def _cosine(inner: torch.Tensor) -> torch.Tensor:
    norms = inner.diagonal().sqrt()
    return inner / norms[:, None] / norms[None, :]
