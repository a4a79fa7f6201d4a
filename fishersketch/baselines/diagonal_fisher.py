"""Cosine of the diagonals of tasks' head Fisher matrices, a Task2Vec-like embedding of the head alone."""

from collections.abc import Sequence

import torch

from fishersketch.baselines.largest_errors import ErrorTerms
from fishersketch.baselines.outer_products import Cosines, exact_outer_product_cosines, outer_product_cosines


def diagonal_fisher_cosines(terms: Sequence[ErrorTerms]) -> Cosines:
    """Return cosines of the Fisher diagonals of tasks' heads, from the largest errors of each sample.

    The diagonal of F = E[g g^T], g = a (x) e, has D[u, k] = E_t[a_tu^2 e_tk^2] for activation u and class k.
    It keeps which weights a task moves and forgets how they move together, so unlike the full matrix it
    depends on the basis of the activations. What the errors left out can change is small, since they enter by
    their fourth powers: 2e-6 of a cosine with 128 of 49,152 errors kept (SmolLM2-135M-Instruct, 6 languages
    of 512 tokens).

    Task2Vec embeds a task by the diagonal over a whole network with a refitted head, averages it within
    filters and divides by the two diagonals' sum before the cosine; this is the head alone and the plain
    cosine.

    Args:
        terms: T tasks' terms from `LargestErrors`. Whether labels are the data's (empirical Fisher) or the
            model's own (true Fisher) is the stream's choice.

    Returns:
        Cosines (T, T), in [0, 1], and their error bounds.

    Raises:
        UndefinedSimilarityError: A task's diagonal is zero.
        FisherSketchError: Tasks differ in dimensions or classes.

    Note:
        Achille, Lam, Tewari, Ravichandran, Maji, Fowlkes, Soatto, Perona: Task2Vec: Task Embedding for
        Meta-Learning, ICCV 2019, sections 2 and 3.

    Examples:
        >>> import torch
        >>> from fishersketch.baselines.largest_errors import LargestErrors
        >>> first, second = LargestErrors(), LargestErrors()
        >>> first.update(torch.tensor([[1.0, 1.0]]), torch.tensor([[-1.0, 1.0]]), torch.tensor([0]))
        >>> second.update(torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, -1.0]]), torch.tensor([1]))
        >>> diagonal_fisher_cosines([first.summary(), second.summary()]).value
        tensor([[1.0000, 0.7071],
                [0.7071, 1.0000]], dtype=torch.float64)
    """
    return outer_product_cosines(terms, squared=True)


def diagonal_fisher_cosine(first: ErrorTerms, second: ErrorTerms) -> float:
    """Return the cosine of two tasks' Fisher diagonals; for many tasks `diagonal_fisher_cosines` is faster.

    Args:
        first: One task's terms.
        second: The other's.

    Returns:
        The cosine, in [0, 1].
    """
    return float(diagonal_fisher_cosines([first, second]).value[0, 1])


def exact_diagonal_fisher_cosines(streams: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> torch.Tensor:
    """Return exact cosines of the Fisher diagonals of tasks' heads, for tasks of few samples.

    <D_i, D_j> = E_s E_t (a_s^2 . a_t^2)(e_s^2 . e_t^2), so no d x K matrix is formed.

    Args:
        streams: T pairs of activations (n_i, d) and errors (n_i, K).

    Returns:
        Cosines (T, T), float64.

    Raises:
        UndefinedSimilarityError: A task has no sample, or its diagonal is zero.
        FisherSketchError: Malformed matrices.
    """
    return exact_outer_product_cosines(streams, squared=True)
