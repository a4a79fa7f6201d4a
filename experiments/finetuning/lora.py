"""Fine-tuning of low-rank adapters on every linear layer but the output head."""

import math
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch

from experiments.draws import uniforms
from experiments.finetuning.trainable import only_trainable


class Lora:
    """A causal language model with float32 adapters W + (alpha / r) B A (Hu et al., 2021).

    Args:
        model: The model, wrapped by peft.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        named = [(name, p) for name, p in model.named_parameters() if "lora_" in name]
        self._down = [(name, p) for name, p in named if "lora_A" in name]
        self._up = [p for name, p in named if "lora_B" in name]
        self.parameters = [p for _, p in named]

    def encode(self, windows: torch.Tensor) -> torch.Tensor:
        """Returns the token ids (n, W) that predict the next ones."""
        return windows[:, :-1]

    def logits(self, inputs: torch.Tensor) -> torch.Tensor:
        """Returns the adapted model's logits (n, W, K)."""
        return self.model(input_ids=inputs, use_cache=False).logits

    @torch.no_grad()
    def reset(self, label: str, seed: int) -> None:
        """Makes every adapter add nothing: A drawn evenly from +-1 / sqrt(inputs), B zero."""
        for name, down in self._down:
            bound = 1 / math.sqrt(down.shape[1])
            draws = uniforms(f"lora {label} {name}", seed, tuple(down.shape))
            down.copy_(torch.from_numpy((2 * draws - 1) * bound))
        for up in self._up:
            up.zero_()


@contextmanager
def lora(model: Any, device: torch.device, rank: int, alpha: int) -> Generator[Lora, None, None]:
    """Puts adapters on a model and takes them off again; its own weights never change.

    Args:
        model: A causal language model in evaluation mode.
        device: Where it is.
        rank: Rank r of the adapters.
        alpha: Their scale is alpha / r.

    Yields:
        The tunable model.
    """
    from peft import LoraConfig, LoraModel

    settings = LoraConfig(r=rank, lora_alpha=alpha, lora_dropout=0.0, target_modules="all-linear")
    flags = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        wrapped = LoraModel(model, settings, "default")  # its draws are global ones; `reset` makes others
    tunable = Lora(wrapped)
    try:
        with only_trainable(wrapped, tunable.parameters):
            yield tunable
    finally:
        wrapped.unload()
        for parameter, flag in flags:
            parameter.requires_grad_(flag)
