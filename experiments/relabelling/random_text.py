"""A random stand-in for a text: the theorems' objects with no language model."""

import torch

from experiments.relabelling.shared_inputs import SharedInputs
from fishersketch.head_transform import OutputTransform


def random_inputs(samples: int, size: int, outputs: int, label_types: int, seed: int) -> SharedInputs:
    """Draws Gaussian activations, a random head and labels of a few types, in float64.

    Args:
        samples: Number of tokens, N.
        size: Activation size, d.
        outputs: Number of outputs, K.
        label_types: Labels are drawn below this number.
        seed: Draws all.

    Returns:
        The inputs; windows of 16 tokens.
    """
    generator = torch.Generator().manual_seed(seed)
    activations = torch.randn(samples, size, generator=generator, dtype=torch.float64)
    head = torch.randn(size, outputs, generator=generator, dtype=torch.float64)
    labels = torch.randint(label_types, (samples,), generator=generator)
    return SharedInputs(
        activations, activations @ head, OutputTransform(), labels, torch.arange(samples) // 16
    )
