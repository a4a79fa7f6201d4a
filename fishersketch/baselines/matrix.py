"""A similarity between tasks, for every pair of them."""

from collections.abc import Callable, Sequence
from typing import Literal, TypeVar

import torch

from fishersketch.baselines.checks import UndefinedSimilarityError
from fishersketch.errors import FisherSketchError

SummaryT = TypeVar("SummaryT")


def similarity_matrix(
    summaries: Sequence[SummaryT],
    similarity: Callable[[SummaryT, SummaryT], float],
    *,
    names: Sequence[str] | None = None,
    symmetric: bool = True,
    undefined: Literal["raise", "nan"] = "raise",
) -> torch.Tensor:
    """Return S[i, j] = similarity(summaries[i], summaries[j]), i the source and j the target.

    Args:
        summaries: What T tasks are compared by, e.g. the summaries of one collector, or matrices.
        similarity: Takes two of them, the source first.
        names: The tasks' names (T,) for errors; their numbers where not given.
        symmetric: Whether similarity(x, y) = similarity(y, x): each pair is then computed once.
        undefined: A pair for which the measure has no value: "raise" stops, "nan" writes NaN.

    Returns:
        Matrix (T, T), float64.

    Raises:
        UndefinedSimilarityError: A pair has no value and `undefined` is "raise"; the error names the pair.
        FisherSketchError: The names do not fit the summaries, or `undefined` is neither word.

    Examples:
        >>> import torch
        >>> similarity_matrix([1.0, 2.0, 4.0], lambda first, second: first / second, symmetric=False)
        tensor([[1.0000, 0.5000, 0.2500],
                [2.0000, 1.0000, 0.5000],
                [4.0000, 2.0000, 1.0000]], dtype=torch.float64)
    """
    if undefined not in ("raise", "nan"):
        raise FisherSketchError(f'undefined={undefined!r}: give "raise" or "nan"')
    if names is None:
        names = [str(number) for number in range(len(summaries))]
    if len(names) != len(summaries):
        raise FisherSketchError(f"{len(names)} names for {len(summaries)} summaries: give one name a task")
    result = torch.full((len(summaries), len(summaries)), torch.nan, dtype=torch.float64)
    for i, source in enumerate(summaries):
        for j in range(i if symmetric else 0, len(summaries)):
            try:
                result[i, j] = similarity(source, summaries[j])
            except UndefinedSimilarityError as error:
                if undefined == "raise":
                    raise UndefinedSimilarityError(f"tasks {names[i]} and {names[j]}: {error}") from error
            if symmetric:
                result[j, i] = result[i, j]
    return result
