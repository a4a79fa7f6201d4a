"""The three factors of an alignment in words, as the candidates compare with each other."""

import math
from collections.abc import Sequence

# For each factor: what is said of the top, the middle and the bottom third of the candidates' range.
FACTOR_WORDS = {
    "activation": ("same words", "similar words", "other words"),
    "error": ("same mistakes", "similar mistakes", "other mistakes"),
    "coupling": ("in the same places", "in similar places", "in other places"),
}
SMALLEST_RANGE = 0.02
LARGEST_RATIO = 1.5


def in_words(values: Sequence[float], factor: str) -> list[str]:
    """Says where each candidate's factor stands between the lowest and the highest of them.

    Activations are what the model makes of the context, so their factor is about the words; errors are what
    it gets wrong; the coupling is whether the same mistakes come with the same contexts. A factor in the top
    third of the candidates' range is "same", in the bottom third "other", between them "similar". Nothing is
    said where candidates hardly differ (by less than `SMALLEST_RANGE`), or where there is only one.

    Args:
        values: The factor of each candidate; NaN where it is not defined.
        factor: activation, error or coupling.

    Returns:
        A few words a candidate, or "".

    >>> in_words([0.9, 0.5, 0.7], "error")
    ['same mistakes', 'other mistakes', 'similar mistakes']
    """
    known = [value for value in values if not math.isnan(value)]
    low, high = min(known, default=0.0), max(known, default=0.0)
    if high - low < SMALLEST_RANGE:
        return ["" for _ in values]
    same, similar, other = FACTOR_WORDS[factor]
    places = [(value - low) / (high - low) for value in values]
    return [
        "" if math.isnan(place) else same if place >= 2 / 3 else other if place <= 1 / 3 else similar
        for place in places
    ]


def coupling_is_clear(joint: float, activation: float, error: float, coupling: float) -> bool:
    """Returns whether two estimates of the coupling agree: its own, and joint / (activation x error).

    Where the cosine that it is divided by is lost in the sketch's noise, they differ by more than
    `LARGEST_RATIO`, and the coupling says nothing.

    >>> coupling_is_clear(0.8, 0.9, 0.9, 1.0), coupling_is_clear(0.06, 0.3, 0.1, 56.0)
    (True, False)
    """
    product = activation * error
    if not (product > 0 and coupling > 0 and joint > 0):
        return False
    return 1 / LARGEST_RATIO <= coupling * product / joint <= LARGEST_RATIO


def describe(factors: dict[str, Sequence[float]]) -> list[str]:
    """Returns each candidate's factors in words, in the order activation, error, coupling.

    Args:
        factors: activation, error and coupling of each candidate; a coupling that is not clear is NaN.

    >>> describe({"activation": [0.9, 0.8], "error": [0.2, 0.6], "coupling": [1.0, 1.0]})
    ['same words, other mistakes', 'other words, same mistakes']
    """
    columns = [in_words(factors[factor], factor) for factor in FACTOR_WORDS]
    return [", ".join(word for word in row if word) for row in zip(*columns, strict=True)]
