"""A batch whose head has been captured, and the errors of any of its rows."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from fishersketch.errors import FisherSketchError, NotFiniteError
from fishersketch.head_capture import capture_head, output_head
from fishersketch.head_labels import Positions, draw_labels, predicted_positions
from fishersketch.head_outputs import check_outputs, raw_outputs
from fishersketch.head_transform import OutputTransform


@dataclass(frozen=True)
class HeadBatch:
    """Everything that the errors of a batch follow from, at its N kept positions.

    Args:
        model_name: for messages.
        head: the output head, d inputs and K outputs.
        transform: what the model applies after it.
        hidden: the head's inputs in the model's dtype, shape (N, d).
        activations: the same in the dtype of the terms, shape (N, d).
        positions: which positions these are.
        uniforms: one number in [0, 1) a position where labels are drawn, shape (N,), float64.
    """

    model_name: str
    head: nn.Linear
    transform: OutputTransform
    hidden: Tensor
    activations: Tensor
    positions: Positions
    uniforms: Tensor | None

    @property
    def row_bytes(self) -> int:
        """Bytes of one position's errors."""
        return self.head.out_features * self.activations.element_size()

    def chunks(self, chunk_bytes: int) -> Iterator[slice]:
        """Cut the kept positions into blocks whose errors fit.

        Args:
            chunk_bytes: bound of a block, at least `row_bytes`.

        Yields:
            The rows of each block, in order.
        """
        rows = chunk_bytes // self.row_bytes
        for start in range(0, len(self.activations), rows):
            yield slice(start, min(start + rows, len(self.activations)))

    @torch.no_grad()
    def errors(self, rows: slice, out: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Form e = dl/dz of some rows.

        Args:
            rows: which kept positions.
            out: where to write, shape (n, K).

        Returns:
            The errors, shape (n, K), and the labels that they hold, given or drawn, shape (n,).
        """
        raw = raw_outputs(self.head, self.hidden[rows], self.activations[rows], out)
        probabilities, buffer = self.transform.probabilities(raw)
        # One entry that is NaN or +inf makes a row's softmax NaN throughout, so a column shows every bad row.
        _check_finite(probabilities[:, :1], "logits", self.head, self, rows.start)
        labels = self.positions.target[rows]
        if self.uniforms is not None:
            labels = draw_labels(
                probabilities, self.uniforms[rows], block_bytes=raw.numel() * raw.element_size()
            )
        return self.transform.errors(probabilities, buffer, labels), labels


def prepare_batch(
    model: nn.Module,
    inputs: Mapping[str, Any],
    labels: Tensor,
    label_mode: str,
    generator: torch.Generator | None,
    group: Tensor | None,
) -> HeadBatch:
    """Check what was asked, run the model up to its head, and check that the head is what it seems.

    Args:
        model: in eval mode.
        inputs: its keyword arguments.
        labels: shape (B, T) or (B,).
        label_mode: "data" or "model".
        generator: for "model".
        group: shape (B,), or None.

    Returns:
        The captured batch.
    """
    name = type(model).__name__
    _check_label_mode(label_mode, generator)
    _check_model(model, inputs, torch.as_tensor(labels).dim())
    head = output_head(model)
    device = head.weight.device
    dtype = torch.float64 if head.weight.dtype == torch.float64 else torch.float32
    positions = predicted_positions(labels, inputs, head.out_features, group)
    uniforms = None
    if generator is not None:
        uniforms = torch.rand(len(positions.index), dtype=torch.float64, generator=generator).to(device)
    if len(positions.index) == 0:
        nothing = torch.empty(0, head.in_features, dtype=dtype, device=device)
        return HeadBatch(name, head, OutputTransform(), nothing, nothing, positions.to(device), uniforms)
    capture = capture_head(model, head, inputs, positions.shape, int(positions.index[0]))
    hidden = capture.hidden.flatten(0, -2)[positions.index.to(capture.hidden.device)].to(device)
    batch = HeadBatch(name, head, capture.transform, hidden, hidden.to(dtype), positions.to(device), uniforms)
    _check_finite(batch.activations, "activations", model, batch, 0)
    formed = raw_outputs(head, hidden[:1], batch.activations[:1])[0]
    check_outputs(head, name, formed, capture.first_output)
    return batch


def _check_label_mode(label_mode: str, generator: torch.Generator | None) -> None:
    if label_mode not in ("data", "model"):
        raise FisherSketchError(f"label_mode={label_mode!r}: choose data or model")
    if label_mode == "model" and generator is None:
        raise FisherSketchError("label_mode='model' draws labels: give a generator")
    if label_mode == "data" and generator is not None:
        raise FisherSketchError("label_mode='data' draws nothing: leave the generator out, or choose model")
    if generator is not None and generator.device.type != "cpu":
        raise FisherSketchError(
            f"the generator is on {generator.device}: give a CPU one, alike on every machine"
        )


def _check_model(model: nn.Module, inputs: Mapping[str, Any], label_dimensions: int) -> None:
    name = type(model).__name__
    training = next((part for part, module in model.named_modules() if module.training), None)
    if training is not None:
        where = f" (its {training})" if training else ""
        raise FisherSketchError(
            f"{name}{where} is in training mode, where dropout is random: call model.eval()"
        )
    if "labels" in inputs:
        raise FisherSketchError("inputs hold labels: give them as the argument labels alone")
    if label_dimensions == 2:
        encoder_decoder = getattr(getattr(model, "config", None), "is_encoder_decoder", False)
        if encoder_decoder or "MaskedLM" in name:
            raise FisherSketchError(f"{name} is no causal language model: its labels are not one step ahead")
        getter: Any = getattr(model, "get_output_embeddings", None)
        if not callable(getter) or getter() is None:
            raise FisherSketchError(
                f"labels (B, T) need a causal language model with get_output_embeddings(): {name} has none"
            )


def _check_finite(values: Tensor, what: str, made_by: nn.Module, batch: HeadBatch, offset: int) -> None:
    bad = values.isfinite().all(dim=1).logical_not()
    if bool(bad.any()):
        where = batch.positions.describe(offset + int(bad.nonzero()[0]))
        owner = "its head's " if made_by is batch.head else "its "
        cause = _cause(made_by, owner, batch.hidden.dtype)
        raise NotFiniteError(f"{batch.model_name} gives {what} that are not finite at {where}: {cause}")


def _cause(made_by: nn.Module, owner: str, dtype: torch.dtype) -> str:
    for name, weight in made_by.named_parameters():
        if not bool(weight.isfinite().all()):
            return f"{owner}{name} holds NaN or infinite values, so load whole weights"
    if dtype in (torch.float16, torch.bfloat16):
        return f"{dtype} overflows, so load the model in float32"
    return "check weights and inputs"
