"""What every way of fine-tuning offers."""

from typing import Protocol

import torch
from torch import nn


class Tunable(Protocol):
    """A model at its base weights, of which some parameters can be trained and put back.

    Attributes:
        parameters: What is trained.
    """

    parameters: list[nn.Parameter]

    def encode(self, windows: torch.Tensor) -> torch.Tensor:
        """Makes the inputs of `logits` from windows (n, W + 1) of token ids; only at the base weights.

        Returns:
            Inputs (n, W, ...): token ids, or activations.
        """

    def logits(self, inputs: torch.Tensor) -> torch.Tensor:
        """Returns the logits (n, W, K) of the W predicted tokens."""

    def reset(self, label: str, seed: int) -> None:
        """Puts the base weights back, bit for bit, and draws what has to be drawn anew.

        Args:
            label: What is trained next; with the seed it fixes the draws.
            seed: Fine-tuning seed.
        """
