"""Which parameters gradients are computed for, for a while."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from torch import nn


@contextmanager
def only_trainable(model: nn.Module, chosen: Sequence[nn.Parameter]) -> Generator[None, None, None]:
    """Computes gradients for the chosen parameters alone; afterwards every flag and gradient is as it was.

    Args:
        model: The model.
        chosen: Some of its parameters.

    Yields:
        Nothing.
    """
    before = [(parameter, parameter.requires_grad, parameter.grad) for parameter in model.parameters()]
    wanted = {id(parameter) for parameter in chosen}
    for parameter, _, _ in before:
        parameter.requires_grad_(id(parameter) in wanted)
        parameter.grad = None
    try:
        yield
    finally:
        for parameter, flag, gradient in before:
            parameter.requires_grad_(flag)
            parameter.grad = gradient
