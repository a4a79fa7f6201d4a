"""Fine-tuning of every parameter."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch

from experiments.errors import UserError
from experiments.finetuning.trainable import only_trainable


class Full:
    """Every parameter of a causal language model, with a copy of the base weights beside it.

    Args:
        model: The model.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.parameters = list(model.parameters())
        self._base = [parameter.detach().clone() for parameter in self.parameters]

    def encode(self, windows: torch.Tensor) -> torch.Tensor:
        """Returns the token ids (n, W) that predict the next ones."""
        return windows[:, :-1]

    def logits(self, inputs: torch.Tensor) -> torch.Tensor:
        """Returns the model's logits (n, W, K)."""
        return self.model(input_ids=inputs, use_cache=False).logits

    @torch.no_grad()
    def reset(self, label: str, seed: int) -> None:
        """Copies the base weights back; there is nothing to draw."""
        for parameter, base in zip(self.parameters, self._base, strict=True):
            parameter.copy_(base)


@contextmanager
def full(model: Any, name: str) -> Generator[Full, None, None]:
    """Opens a model for full fine-tuning and leaves it as it was.

    Args:
        model: A causal language model in evaluation mode.
        name: Its name, for the error.

    Yields:
        The tunable model.

    Raises:
        UserError: When its weights are in half precision, whose rounding swallows small steps.
    """
    dtypes = {parameter.dtype for parameter in model.parameters()}
    if dtypes != {torch.float32}:
        found = ", ".join(sorted(str(dtype).removeprefix("torch.") for dtype in dtypes))
        raise UserError(
            f"transfer.mode=full: the weights of {name} are {found}, whose rounding swallows small steps; "
            "set model.dtype=float32, or transfer=lora or transfer=head"
        )
    tunable = Full(model)
    try:
        with only_trainable(model, tunable.parameters):
            yield tunable
    finally:
        tunable.reset("", 0)
