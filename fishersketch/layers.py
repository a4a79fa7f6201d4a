"""Activations and back-propagated errors of inner linear layers, from one forward and one backward pass."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn

from fishersketch.errors import FisherSketchError
from fishersketch.head_capture import forward_inputs, logits_of
from fishersketch.head_labels import predicted_positions
from fishersketch.samples import all_finite


def linear_layers(model: nn.Module, patterns: Sequence[str] = ("*",)) -> dict[str, nn.Linear]:
    """Finds the linear layers whose dotted names match a pattern.

    Args:
        model: any module.
        patterns: shell patterns, such as "*.mlp.down_proj".

    Returns:
        The layers by name, in the model's order; the output head is one of them.

    Raises:
        FisherSketchError: a pattern matches none; names it.

    >>> list(linear_layers(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2))))
    ['0', '2']
    """
    layers = {name: module for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in layers):
            raise FisherSketchError(
                f"layers: no linear layer is named {pattern}; there are {', '.join(list(layers)[:8])}, ..."
            )
    return {
        name: layer
        for name, layer in layers.items()
        if any(fnmatchcase(name, pattern) for pattern in patterns)
    }


def layer_terms(
    model: nn.Module, inputs: Mapping[str, Any], labels: Tensor, layers: Mapping[str, nn.Linear]
) -> dict[str, tuple[Tensor, Tensor]]:
    r"""Takes the inputs a of linear layers and the errors e = dl/dz at their outputs z = W a + b.

    l is the loss summed over all predictions, in nats. The gradient of a layer's weight is the sum of e a^T
    over all positions, those that are not predicted included: later losses reach them too.

    Args:
        model: a causal language model or an image classifier, in evaluation mode.
        inputs: the model's keyword arguments, B rows.
        labels: token ids (B, T), shifted here, or classes (B,); -100 is skipped.
        layers: the layers, as `linear_layers` gives them; each must run once in a pass.

    Returns:
        By layer, activations (B, positions, inputs) and errors (B, positions, outputs), detached.

    Raises:
        FisherSketchError: labels do not fit, a layer runs never or twice, or its values are not finite.
    """
    seen: dict[str, tuple[Tensor, Tensor]] = {}

    def keep(name: str) -> Any:
        def hook(layer: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> None:
            if name in seen:
                raise FisherSketchError(f"layer {name} runs twice in a forward pass: leave it out")
            seen[name] = (args[0].detach(), output)

        return hook

    handles = [layer.register_forward_hook(keep(name)) for name, layer in layers.items()]
    try:
        with torch.enable_grad():
            loss = summed_loss(model, inputs, labels)
    finally:
        for handle in handles:
            handle.remove()
    for name in layers:
        if name not in seen or not seen[name][1].requires_grad:
            raise FisherSketchError(f"layer {name} takes no part in the loss: leave it out")
    errors = torch.autograd.grad(loss, [seen[name][1] for name in layers])
    terms = {}
    for name, error in zip(layers, errors, strict=True):
        activation = seen[name][0].reshape(len(labels), -1, seen[name][0].shape[-1])
        error = error.reshape(len(labels), -1, error.shape[-1])
        for what, values in (("activations", activation), ("errors", error)):
            if not all_finite(values):
                raise FisherSketchError(f"layer {name}: {what} hold NaN or infinite values")
        terms[name] = (activation, error)
    return terms


def summed_loss(model: nn.Module, inputs: Mapping[str, Any], labels: Tensor) -> Tensor:
    """Returns the loss of a batch summed over its predictions, a scalar in nats.

    Args:
        model: a causal language model or an image classifier.
        inputs: its keyword arguments.
        labels: token ids (B, T), shifted here, or classes (B,); -100 is skipped.

    Raises:
        FisherSketchError: labels do not fit, or the model returns no logits.
    """
    logits = logits_of(model(**forward_inputs(model, inputs)), type(model).__name__)
    positions = predicted_positions(labels, inputs, logits.shape[-1]).to(logits.device)
    kept = logits.flatten(0, -2)[positions.index]
    if kept.dtype in (torch.float16, torch.bfloat16):
        kept = kept.float()
    return nn.functional.cross_entropy(kept, positions.target, reduction="sum")
