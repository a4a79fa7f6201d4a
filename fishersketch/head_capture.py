"""One forward pass that stops at the output head: the head's inputs, and what the model does after it."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from fishersketch.errors import FisherSketchError
from fishersketch.head_transform import OutputTransform, identify_transform, probe_values

_CLASSIFIER_NAMES = ("classifier", "head", "heads", "fc")


def output_head(model: nn.Module) -> nn.Linear:
    """The linear layer that makes a model's outputs.

    Looks at `get_output_embeddings()` (language models), `get_classifier()` (timm), then the attributes
    `classifier`, `head`, `heads` and `fc`; a `Sequential` counts where its one linear layer comes last.

    Args:
        model: a causal language model or an image classifier.

    Returns:
        The head, d inputs and K outputs.

    Raises:
        FisherSketchError: if there is no head, or it is not a plain linear layer.

    >>> output_head(nn.ModuleDict({"head": nn.Linear(4, 7)}))
    Linear(in_features=4, out_features=7, bias=True)
    """
    name = type(model).__name__
    head = _find_head(model)
    if head is None:
        raise FisherSketchError(
            f"{name} has no output head that can be found: it needs get_output_embeddings(), "
            f"get_classifier() or a layer named {', '.join(_CLASSIFIER_NAMES)}"
        )
    if isinstance(head, nn.Sequential):
        linear = [layer for layer in head.modules() if isinstance(layer, nn.Linear)]
        if len(linear) == 1 and head[-1] is linear[0]:
            head = linear[0]
    if not isinstance(head, nn.Linear) or _computes_more(head):
        raise FisherSketchError(
            f"the output head of {name} is a {type(head).__name__}, not a plain linear layer (nn.Linear): "
            "choose a model with a linear head, and merge adapters into it"
        )
    if not head.weight.is_floating_point() or head.weight.shape != (head.out_features, head.in_features):
        raise FisherSketchError(
            f"the output head of {name} is a {type(head).__name__} with a packed {head.weight.dtype} weight: "
            "load the head unquantized"
        )
    if head.weight.is_meta:
        raise FisherSketchError(f"the output head of {name} has no weight in memory: load it on a device")
    return head


# A subclass with tensors of its own in a forward of its own, such as a learned scale or a quantization table.
def _computes_more(head: nn.Linear) -> bool:
    names = {name for name, _ in [*head.named_parameters(), *head.named_buffers()]}
    return type(head).forward is not nn.Linear.forward and not names <= {"weight", "bias"}


def _find_head(model: nn.Module) -> Any:
    for getter in ("get_output_embeddings", "get_classifier"):
        if callable(getattr(model, getter, None)):
            head = getattr(model, getter)()
            if head is not None:
                return head
    children = dict(model.named_children())
    return next((children[name] for name in _CLASSIFIER_NAMES if name in children), None)


@dataclass(frozen=True)
class Capture:
    """What one forward pass shows of the head.

    Args:
        hidden: the head's inputs in the model's dtype, shape (B, T, d), or (B, d) of a classifier.
        first_output: the head's own raw output at one position, shape (K,).
        transform: what the model applies to the raw outputs.
    """

    hidden: Tensor
    first_output: Tensor
    transform: OutputTransform


class _HeadHooks:
    """Hands one position alone to the head, and probe values to whatever follows it."""

    def __init__(self, position: tuple[int, ...]) -> None:
        self.position = position
        self.calls = 0
        self.hidden = torch.empty(0)
        self.first_output = torch.empty(0)
        self.probes = torch.empty(0)

    def before(self, head: nn.Module, args: tuple, kwargs: dict) -> tuple[tuple, dict] | None:
        self.calls += 1
        self.hidden = (args[0] if args else kwargs["input"]).detach()
        if self.hidden.dim() != len(self.position) + 1:
            return None  # the pass ends in an error about this shape
        return (self.hidden[tuple(slice(index, index + 1) for index in self.position)],), {}

    def after(self, head: nn.Module, args: tuple, output: Tensor) -> Tensor:
        self.first_output = output.detach().flatten()
        # Float64 outlives what follows the head, so a half-precision model shows its constants unrounded.
        self.probes = probe_values(output.shape[-1], output.device)
        return self.probes.view(*([1] * (len(self.position) - 1)), *self.probes.shape)


def capture_head(
    model: nn.Module, head: nn.Linear, inputs: Mapping[str, Any], shape: torch.Size, first: int
) -> Capture:
    """Run a model up to its head, and probe what it does after it.

    Args:
        model: in eval mode.
        head: its output head.
        inputs: the model's keyword arguments.
        shape: of the labels, (B, T), or (B,) of a classifier.
        first: flat index of the position whose output the head computes itself.

    Returns:
        The captured inputs, that output, and the transform.

    Raises:
        FisherSketchError: if the head does not run once on inputs of that shape, or an unknown transform
            follows it.
    """
    name = type(model).__name__
    hooks = _HeadHooks(tuple(int(index) for index in torch.unravel_index(torch.tensor(first), shape)))
    handles = [
        head.register_forward_pre_hook(hooks.before, with_kwargs=True),
        head.register_forward_hook(hooks.after),
    ]
    try:
        with torch.no_grad():
            output = model(**forward_inputs(model, inputs))
    finally:
        for handle in handles:
            handle.remove()
    if hooks.calls != 1:
        raise FisherSketchError(
            f"the output head of {name} runs {hooks.calls} times in a forward pass, not once: give the plain "
            "model, not a compiled one, and one whose head is called as a module"
        )
    if hooks.hidden.shape != (*shape, head.in_features):
        raise FisherSketchError(
            f"the output head of {name} reads inputs of shape {tuple(hooks.hidden.shape)}, but labels have "
            f"shape {tuple(shape)}: give one label for every position"
        )
    return Capture(
        hooks.hidden, hooks.first_output, identify_transform(hooks.probes, logits_of(output, name), name)
    )


def forward_inputs(model: nn.Module, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the inputs without a cache of keys and values, where the model would build one."""
    parameters = inspect.signature(model.forward).parameters
    catches_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    if "use_cache" in parameters or (catches_all and hasattr(getattr(model, "config", None), "use_cache")):
        return {**inputs, "use_cache": False}
    return dict(inputs)


def logits_of(output: Any, model_name: str) -> Tensor:
    """Returns the logits of what a model returns: a tensor, an object with logits, or a tuple that begins so.

    Args:
        output: what it returned.
        model_name: for the message.

    Raises:
        FisherSketchError: there are none.
    """
    first = output[0] if isinstance(output, tuple) else output
    logits = first if isinstance(first, Tensor) else getattr(first, "logits", None)
    if not isinstance(logits, Tensor):
        raise FisherSketchError(f"{model_name} returns a {type(output).__name__} without logits")
    return logits
