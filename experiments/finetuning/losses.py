"""Next-token cross-entropy in bounded memory."""

from collections.abc import Callable

import torch
from torch.nn.functional import cross_entropy

LOGIT_BYTES = {"cpu": 1 << 28, "cuda": 1 << 30}
Logits = Callable[[torch.Tensor], torch.Tensor]


def windows_at_once(window_tokens: int, vocabulary_size: int, device: torch.device) -> int:
    """Returns how many windows' float32 logits fit in 256 MiB on a CPU or 1 GiB on a GPU, one at least."""
    return max(1, LOGIT_BYTES[device.type] // (4 * window_tokens * vocabulary_size))


def token_losses(logits: Logits, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Returns -log p(label) of every predicted token, (n, W) float32, in nats."""
    found = logits(inputs)  # (n, W, K)
    return cross_entropy(found.flatten(0, 1).float(), labels.flatten(), reduction="none").view(labels.shape)


@torch.inference_mode()
def window_losses(
    logits: Logits, inputs: torch.Tensor, labels: torch.Tensor, at_once: int, device: torch.device
) -> torch.Tensor:
    """Mean loss of each window.

    Args:
        logits: Logits (n, W, K) of inputs (n, W, ...).
        inputs: Inputs (N, W, ...), on any device.
        labels: Token ids to predict (N, W).
        at_once: Windows a forward pass.
        device: Where the model is.

    Returns:
        Losses (N,) float32 on the CPU, in nats/token.
    """
    parts = zip(inputs.split(at_once), labels.split(at_once), strict=True)
    means = [token_losses(logits, x.to(device), y.to(device)).mean(dim=1) for x, y in parts]
    return torch.cat(means).cpu()
