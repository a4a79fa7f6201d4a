"""Relabelling of next tokens: a bijection that moves a share of the label types out of a task's label set."""

from dataclasses import dataclass

import torch

from experiments.draws import permutations
from experiments.errors import UserError


@dataclass(frozen=True)
class LabelMap:
    """A drawn order of a text's label types, and a token outside the label set for each.

    A larger overlap keeps all that a smaller one keeps, so that a dial over it moves one way.

    Attributes:
        types: Label types of the text (V,) int64, rising.
        replacements: A token id for each type (V,), all different, none of them a type.
        order: Places of the types (V,), the first to be moved first.
    """

    types: torch.Tensor
    replacements: torch.Tensor
    order: torch.Tensor

    def moved(self, overlap: float) -> torch.Tensor:
        """Returns the token id that each type becomes (V,) when a share of the types keep theirs.

        Args:
            overlap: Share of the types that both label sets hold, 0 to 1.
        """
        found = self.types.clone()
        away = self.order[: len(self.types) - round(overlap * len(self.types))]
        found[away] = self.replacements[away]
        return found

    def relabel(self, labels: torch.Tensor, overlap: float) -> torch.Tensor:
        """Returns the labels (N,) of the second task."""
        return self.moved(overlap)[torch.searchsorted(self.types, labels)]


def label_map(labels: torch.Tensor, vocabulary_size: int, domain: str, seed: int) -> LabelMap:
    """Draws a bijection from a text's label types to as many other tokens.

    Args:
        labels: Next tokens of the text (N,).
        vocabulary_size: Number of tokens, K.
        domain: Name of the text.
        seed: Draws the map.

    Returns:
        The map.

    Raises:
        UserError: More than half of the vocabulary are labels, so that no disjoint set is left.
    """
    types = labels.unique()
    free = torch.ones(vocabulary_size, dtype=torch.bool)
    free[types] = False
    others = free.nonzero().flatten()
    if len(others) < len(types):
        raise UserError(
            f"domain {domain}: {len(types)} of {vocabulary_size} tokens are labels, which leaves no disjoint "
            "label set of that size; lower settings.windows"
        )
    drawn = permutations(f"replacements {domain}", seed, 1, len(others))[0][: len(types)]
    order = permutations(f"types {domain}", seed, 1, len(types))[0]
    return LabelMap(types, others[torch.from_numpy(drawn)], torch.from_numpy(order))
