"""Fine-tuning of an untied copy of the output head, on cached activations."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.functional import linear

from experiments.finetuning.losses import windows_at_once
from fishersketch.head_capture import capture_head, output_head
from fishersketch.head_transform import OutputTransform


class Head:
    """A float32 copy of a causal language model's output head; the model itself is never changed.

    The body runs once for each text, in `encode`: what the head reads does not depend on what is trained.

    Args:
        model: The model.
        device: Where it is.
    """

    def __init__(self, model: Any, device: torch.device) -> None:
        self.model = model
        self.device = device
        self.head = output_head(model)
        self._base = {name: p.detach().float() for name, p in self.head.named_parameters()}
        self.trained = {name: nn.Parameter(base.clone()) for name, base in self._base.items()}
        self.parameters = list(self.trained.values())
        self._transform = OutputTransform()

    def encode(self, windows: torch.Tensor) -> torch.Tensor:
        """Returns the head's inputs (n, W, d), float32 on the CPU; learns what follows the head."""
        at_once = windows_at_once(windows.shape[1] - 1, self.head.in_features, self.device)
        found = []
        for part in windows[:, :-1].split(at_once):
            tokens = part.to(self.device)
            capture = capture_head(self.model, self.head, {"input_ids": tokens}, tokens.shape, 0)
            self._transform = capture.transform
            found.append(capture.hidden.float().cpu())
        return torch.cat(found)

    def logits(self, inputs: torch.Tensor) -> torch.Tensor:
        """Returns the logits (n, W, K) of the copy, with what the model applies after its head."""
        raw = linear(inputs, self.trained["weight"], self.trained.get("bias"))
        plain = self._transform == OutputTransform()
        return raw if plain else self._transform.logits(raw)

    @torch.no_grad()
    def reset(self, label: str, seed: int) -> None:
        """Copies the base head back; there is nothing to draw."""
        for name, base in self._base.items():
            self.trained[name].copy_(base)


@contextmanager
def head(model: Any, device: torch.device) -> Generator[Head, None, None]:
    """Opens a model for fine-tuning of its head.

    Args:
        model: A causal language model in evaluation mode, with a linear output head.
        device: Where it is.

    Yields:
        The tunable head.
    """
    yield Head(model, device)
