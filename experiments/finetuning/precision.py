"""A tunable model whose matrix products are in lower precision."""

import torch

from experiments.finetuning.base import Tunable


class MixedPrecision:
    """A tunable model under `torch.autocast`: bfloat16 products, float32 weights, updates and losses.

    Args:
        tunable: The model.
        device: Where it is.
    """

    def __init__(self, tunable: Tunable, device: torch.device) -> None:
        self._tunable = tunable
        self._device = device
        self.parameters = tunable.parameters
        self.reset = tunable.reset

    def encode(self, windows: torch.Tensor) -> torch.Tensor:
        """Returns the inputs of `logits`; the body under a trained head runs once, and in full precision."""
        return self._tunable.encode(windows)

    def logits(self, inputs: torch.Tensor) -> torch.Tensor:
        """Returns the logits (n, W, K), rounded to bfloat16."""
        # Weights are cast once a call, never across calls: an update in between would not be seen.
        with torch.autocast(self._device.type, torch.bfloat16):
            return self._tunable.logits(inputs)
