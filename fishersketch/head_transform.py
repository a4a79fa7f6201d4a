"""What a model applies to its head's raw outputs before the softmax, measured and carried into the error."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fishersketch.errors import FisherSketchError

_SLOPE_PROBE = 1.0
_FAR_PROBES = (1e8, 2e8)
_RAMP = 60.0
_MIN_PROBES = 256
_TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-5, torch.bfloat16: 5e-3, torch.float16: 1e-3}


def probe_values(num_outputs: int, device: torch.device) -> Tensor:
    """Raw outputs that tell the transforms apart: a ramp over [-60, 60], one moderate and two far values.

    Args:
        num_outputs: K, the head's rows.
        device: where the head's output lives.

    Returns:
        Float64 values, shape (R, K) with R K at least 256; distinct, so that a transform which moves or
        treats columns differently cannot pass for an elementwise one.
    """
    rows = max(1, math.ceil(_MIN_PROBES / num_outputs))
    values = torch.linspace(-_RAMP, _RAMP, rows * num_outputs, dtype=torch.float64, device=device)
    values[:3] = torch.tensor([_SLOPE_PROBE, *_FAR_PROBES], dtype=torch.float64, device=device)
    return values.view(rows, num_outputs)


@dataclass(frozen=True)
class OutputTransform:
    """The map f from the head's raw output z to the logits: s z, or c tanh(s z / c) under a soft-cap c.

    Covers a plain head (s = 1), Granite's `logits_scaling` (s = 1 / scaling), Cohere's `logit_scale`
    and Gemma-2's `final_logit_softcapping`, alone or together.

    Args:
        scale: s, the slope of f at 0.
        cap: c, the bound of the logits; None without a soft-cap.
    """

    scale: float = 1.0
    cap: float | None = None

    def logits(self, raw: Tensor) -> Tensor:
        """Apply f.

        Args:
            raw: z, any shape.

        Returns:
            f(z), a new tensor.
        """
        if self.cap is None:
            return raw * self.scale
        return torch.tanh(raw * (self.scale / self.cap)) * self.cap

    def probabilities(self, raw: Tensor) -> tuple[Tensor, Tensor]:
        """Softmax of the logits, in the buffer of the raw outputs where that can be.

        Args:
            raw: z, shape (n, K); overwritten.

        Returns:
            p = softmax(f(z)), shape (n, K), and the buffer for `errors`: the same tensor without a soft-cap,
            with one a second (n, K) tensor that holds tanh(s z / c) and lives in `raw`.
        """
        if self.cap is None:
            if self.scale != 1.0:
                raw.mul_(self.scale)
            return torch.softmax(raw, dim=1, out=raw), raw
        tanh = raw.mul_(self.scale / self.cap).tanh_()
        logits = tanh * self.cap
        return torch.softmax(logits, dim=1, out=logits), tanh

    def errors(self, probabilities: Tensor, buffer: Tensor, labels: Tensor) -> Tensor:
        """The errors dl/dz = f'(z) (p - onehot(y)), in place.

        Args:
            probabilities: p, shape (n, K), from `probabilities`; overwritten.
            buffer: what `probabilities` returned beside p; overwritten, and holds the result.
            labels: y, shape (n,), int64.

        Returns:
            e, shape (n, K): the tensor `buffer`.
        """
        rows = torch.arange(len(labels), device=labels.device)
        probabilities[rows, labels] -= 1.0
        if self.cap is not None:
            buffer.square_().neg_().add_(1.0).mul_(probabilities)  # f'(z) = s (1 - tanh(s z / c)^2)
        if self.scale != 1.0:
            buffer.mul_(self.scale)
        return buffer


def identify_transform(raw: Tensor, logits: Tensor, model_name: str) -> OutputTransform:
    """The transform that sends the probes to what the model made of them.

    Args:
        raw: the probes from `probe_values`, shape (R, K), float64.
        logits: the logits that the model returned in place of them, R K values.
        model_name: for the message.

    Returns:
        A transform which reproduces every probe within the rounding of the logits' dtype.

    Raises:
        FisherSketchError: if no transform of the family does, or half precision hides which.
    """
    seen = logits.detach().to(torch.float64)
    if seen.numel() != raw.numel():
        raise FisherSketchError(
            f"{model_name} returns logits of shape {tuple(logits.shape)} where its head gave raw outputs of "
            f"shape {tuple(raw.shape)}: known after a head are a positive scale and a tanh soft-cap"
        )
    seen = seen.reshape(raw.shape)
    tolerance = _TOLERANCE.get(logits.dtype, 0.0)
    if torch.allclose(seen, raw.to(logits.dtype).to(torch.float64), rtol=tolerance, atol=0.0):
        return OutputTransform()
    if logits.dtype in (torch.bfloat16, torch.float16):
        raise FisherSketchError(
            f"{model_name} transforms its head's outputs and rounds them to {logits.dtype}, which hides the "
            "transform's constants: load the model in float32"
        )
    slope, near, far = (float(value) for value in seen.flatten()[:3])
    if 0 < slope < far and math.isclose(near, far, rel_tol=tolerance):
        transform = OutputTransform(far * math.atanh(slope / far) / _SLOPE_PROBE, far)
    else:
        transform = OutputTransform(slope / _SLOPE_PROBE)
    expected = transform.logits(raw)
    off = (seen - expected).abs() - tolerance * (expected.abs() + abs(transform.scale))
    if transform.scale > 0 and bool((off <= 0).all()):
        return transform
    worst = int(off.nan_to_num(nan=math.inf).argmax())
    value, became = float(raw.flatten()[worst]), float(seen.flatten()[worst])
    raise FisherSketchError(
        f"{model_name} applies an unknown transform after its head: raw output {value:.6g} in column "
        f"{worst % raw.shape[1]} became {became:.6g}; known are a positive scale and a tanh soft-cap"
    )
