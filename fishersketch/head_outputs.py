"""The head's raw outputs, formed from its captured inputs at full precision."""

import torch
from torch import Tensor, nn

from fishersketch.errors import FisherSketchError

UPCAST_BYTES = 1 << 25
# Rounding of the head's own matrix product, relative to its largest output.
_TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-5, torch.bfloat16: 2e-2, torch.float16: 5e-3}
_TF32_TOLERANCE = 3e-3


def raw_outputs(head: nn.Linear, hidden: Tensor, activations: Tensor, out: Tensor | None = None) -> Tensor:
    """The head's raw outputs z = W a + b, without rounding to half precision.

    Args:
        head: d inputs, K outputs.
        hidden: a in the model's dtype, shape (n, d).
        activations: a in float32 (float64 of a float64 head), shape (n, d).
        out: where to write, shape (n, K).

    Returns:
        z, shape (n, K), in the dtype of `activations`.
    """
    weight = head.weight.detach()
    if out is None:
        out = activations.new_empty(len(activations), head.out_features)
    with torch.autocast(weight.device.type, enabled=False):
        if weight.dtype == activations.dtype:
            torch.mm(activations, weight.t(), out=out)
        elif weight.is_cuda and hidden.dtype == weight.dtype and hasattr(torch.ops.aten.mm, "dtype"):
            # Half-precision factors summed and returned in float32: what upcasting gives, at full speed.
            out.copy_(torch.mm(hidden, weight.t(), out_dtype=activations.dtype))
        else:
            rows = max(1, UPCAST_BYTES // (head.in_features * activations.element_size()))
            for start in range(0, head.out_features, rows):
                block = weight[start : start + rows].to(activations.dtype)
                torch.mm(activations, block.t(), out=out[:, start : start + rows])
        if head.bias is not None:
            out.add_(head.bias.detach())
    return out


def check_outputs(head: nn.Linear, model_name: str, formed: Tensor, returned: Tensor) -> None:
    """Compare z = W a + b with what the head itself returned: a subclass or a hook may do something else.

    Args:
        head: the head.
        model_name: for the message.
        formed: z from `raw_outputs`, shape (K,).
        returned: the head's own output at the same position, shape (K,).

    Raises:
        FisherSketchError: if they differ by more than the rounding of the head's product.
    """
    tolerance = max(_TOLERANCE.get(dtype, 0.0) for dtype in (head.weight.dtype, returned.dtype))
    if returned.is_cuda and returned.dtype == torch.float32:
        tolerance = max(tolerance, _TF32_TOLERANCE)
    both = formed.isfinite() & returned.isfinite()  # what is not finite is refused later, by its position
    off = float(torch.where(both, formed - returned.to(formed.dtype), 0.0).abs().max())
    if off > tolerance * float(torch.where(both, formed, 0.0).abs().max()):
        raise FisherSketchError(
            f"the output head of {model_name}, a {type(head).__name__}, does not return W a + b (off by "
            f"{off:.3g}): remove what alters it, such as a hook or a quantized or adapted layer"
        )
