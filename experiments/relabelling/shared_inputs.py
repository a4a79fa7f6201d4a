"""A model's head on fixed tokens: its inputs and raw outputs once, its errors under any labels."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from experiments.matmul import fast_float32
from experiments.models.base import LoadedModel
from fishersketch.head_batch import HeadBatch, prepare_batch
from fishersketch.head_capture import output_head
from fishersketch.head_outputs import raw_outputs
from fishersketch.head_transform import OutputTransform

_BATCH_WINDOWS = 8


@dataclass(frozen=True)
class SharedInputs:
    """What every labelling of the same N predicted tokens has in common.

    Attributes:
        activations: The head's inputs (N, d), float32 or float64, on the CPU.
        raw: The head's raw outputs z (N, K), same dtype.
        transform: What the model applies to z before the softmax.
        labels: The text's own next tokens (N,) int64.
        group: Number of each token's window (N,) int64.
    """

    activations: torch.Tensor
    raw: torch.Tensor
    transform: OutputTransform
    labels: torch.Tensor
    group: torch.Tensor

    def errors(self, labels: torch.Tensor) -> torch.Tensor:
        """Returns e = dl/dz (N, K) under the softmax over the whole vocabulary.

        Args:
            labels: The labels (N,).
        """
        return _errors(self.raw, self.transform, labels)

    def errors_within(
        self, labels: torch.Tensor, label_set: torch.Tensor, columns: torch.Tensor
    ) -> torch.Tensor:
        """Returns e = dl/dz (N, C) under the softmax over a task's label set alone; 0 outside it.

        Args:
            labels: The labels (N,), all in the set.
            label_set: The set's token ids, rising.
            columns: Token ids of the errors returned (C,), rising; they hold the set.
        """
        errors = self.raw.new_zeros(len(labels), len(columns))
        errors[:, torch.searchsorted(columns, label_set)] = _errors(
            self.raw[:, label_set], self.transform, torch.searchsorted(label_set, labels)
        )
        return errors

    def _label_free(self) -> torch.Tensor:
        """Returns f'(z) p (N, K), what of e = f'(z) (p - onehot(y)) no label enters."""
        return _slope(self.raw, self.transform) * torch.softmax(self.transform.logits(self.raw), dim=1)

    def rotated(self, columns: torch.Tensor) -> "RotatedErrors":
        """Returns the errors in coordinates that are few and keep every inner product.

        Args:
            columns: All token ids (C,), rising, that any labelling of these inputs uses.
        """
        shared = self._label_free()
        others = torch.ones(shared.shape[1], dtype=torch.bool)
        others[columns] = False
        rest = torch.linalg.qr(shared[:, others].T, mode="r").R.T  # (N, N): rest rest^T = the columns' Gram
        slope = _slope(self.raw[:, columns], self.transform)
        return RotatedErrors(columns, shared[:, columns], slope, rest)

    def double(self, loaded: LoadedModel) -> "SharedInputs":
        """Returns the same in float64, the raw outputs formed anew from the head's weights in float64."""
        head = output_head(loaded.model)
        activations = self.activations.double()
        raw = activations @ head.weight.detach().cpu().double().T
        if head.bias is not None:
            raw += head.bias.detach().cpu().double()
        return replace(self, activations=activations, raw=raw)


@dataclass(frozen=True)
class RotatedErrors:
    """Errors whose columns that no labelling uses are rotated into N coordinates, exactly.

    Those columns hold f'(z) p whatever the labels, so one rotation serves all labellings, and inner products
    between two errors take C + N multiply-adds in place of K.

    Attributes:
        columns: Token ids (C,), rising.
        shared: f'(z) p of them (N, C).
        slope: f'(z) of them (N, C).
        rest: The other columns, rotated (N, N).
    """

    columns: torch.Tensor
    shared: torch.Tensor
    slope: torch.Tensor
    rest: torch.Tensor

    def label_free(self) -> torch.Tensor:
        """Returns f'(z) p (N, C + N) in these coordinates."""
        return torch.cat([self.shared, self.rest], dim=1)

    def errors(self, labels: torch.Tensor) -> torch.Tensor:
        """Returns the rotated errors (N, C + N) under labels (N,) that are among the columns."""
        rows, places = torch.arange(len(labels)), torch.searchsorted(self.columns, labels)
        labelled = self.shared.clone()
        labelled[rows, places] -= self.slope[rows, places]
        return torch.cat([labelled, self.rest], dim=1)


def shared_inputs(loaded: LoadedModel, windows: torch.Tensor, *, last_only: bool = False) -> SharedInputs:
    """Runs a model on windows up to its head.

    Args:
        loaded: A causal language model.
        windows: Tokens (n, W + 1) int64; the first column is context only.
        last_only: Predict the last column alone, as the answer to a prompt.

    Returns:
        The head's inputs and raw outputs at the N = n W predicted tokens (N = n if `last_only`), on the CPU.
    """
    batches: list[HeadBatch] = []
    raw: list[torch.Tensor] = []
    with fast_float32(loaded.device), torch.no_grad():
        for start, part in zip(
            range(0, len(windows), _BATCH_WINDOWS), windows.split(_BATCH_WINDOWS), strict=True
        ):
            tokens = part.to(loaded.device)
            group = torch.arange(start, start + len(part))
            inputs = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
            labels = tokens.clone()
            if last_only:
                labels[:, :-1] = -100
            batch = prepare_batch(loaded.model, inputs, labels, "data", None, group)
            batches.append(batch)
            raw.append(raw_outputs(batch.head, batch.hidden, batch.activations).cpu())
    return SharedInputs(
        activations=torch.cat([batch.activations.cpu() for batch in batches]),
        raw=torch.cat(raw),
        transform=batches[0].transform,
        labels=torch.cat([batch.positions.target.cpu() for batch in batches]),
        group=torch.cat([batch.positions.group.cpu() for batch in batches]),
    )


def union(label_sets: Sequence[torch.Tensor]) -> torch.Tensor:
    """Returns the token ids that are in any of the sets, rising."""
    return torch.cat(list(label_sets)).unique()


def _errors(raw: torch.Tensor, transform: OutputTransform, labels: torch.Tensor) -> torch.Tensor:
    errors = torch.softmax(transform.logits(raw), dim=1)
    errors[torch.arange(len(labels)), labels] -= 1.0
    return errors.mul_(_slope(raw, transform))


def _slope(raw: torch.Tensor, transform: OutputTransform) -> torch.Tensor:
    """Returns f'(z) of logits f(z), the shape of z."""
    if transform.cap is None:
        return torch.full_like(raw, transform.scale)
    return transform.scale * (1 - (transform.logits(raw) / transform.cap) ** 2)
