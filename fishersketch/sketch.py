"""The streaming estimator: one pass over a task's (activation, error) pairs."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from fishersketch.errors import FisherSketchError
from fishersketch.sequence_features import sequence_features
from fishersketch.signature import TaskSignature, make_signature
from fishersketch.spec import SketchSpec, describe_difference

# Working memory of an update: a chunk's signed errors and features stay in the processor's cache.
_CHUNK_BYTES = 1 << 23


class FisherSketch:
    r"""Accumulates the random Maclaurin features of the head gradients g = a (x) e of one task.

    With projections w, w' of activations and x, x' of errors, three means over the samples are kept:

        joint       (w.a)(w'.a)(x.e)(x'.e)    sketches F = E[g g^T]
        activation  (w.a)(w'.a)               sketches M = E[a a^T]
        error       (x.e)(x'.e)               sketches Gamma = E[e e^T]

    For two tasks joint_i . joint_j / m is an unbiased estimate of <F_i, F_j>, and alike for M and Gamma.
    Samples are split into two halves by the parity of their group, so that self terms can be estimated
    without the bias of a sample meeting itself. Sums are float64; the state is 3 x 2 x m x 8 bytes.

    Args:
        spec: sizes, features, projection, seed.
        provenance: what the activations and errors came from (model, tokenizer, label mode, ...);
            JSON values. Signatures of different provenance refuse to be compared.

    Source:
        The Geometry of Updates, Section on FisherSketch; Kar and Karnick, AISTATS 2012.

    >>> spec = SketchSpec(activation_dim=3, error_dim=5, num_features=8)
    >>> sketch = FisherSketch(spec)
    >>> sketch.update(torch.ones(2, 3), torch.ones(2, 5), group=torch.tensor([0, 1]))
    >>> sketch.num_samples, sketch.state_bytes
    (2, 384)
    """

    def __init__(self, spec: SketchSpec, provenance: Mapping[str, Any] | None = None):
        self.spec = spec
        self.provenance = json.loads(json.dumps(dict(provenance or {}), sort_keys=True))
        self._activation_projection, self._error_projection = spec.projections()
        self._sums = torch.zeros(2, len(spec.streams), spec.num_features, dtype=torch.float64)
        self._counts = torch.zeros(2, dtype=torch.int64)
        self._tokens = 0
        self._grouped: bool | None = None
        self._last_group: int | None = None

    @property
    def num_samples(self) -> int:
        """Samples seen: tokens, or finished sequences."""
        return int(self._counts.sum())

    @property
    def num_tokens(self) -> int:
        """Rows of activations and errors seen."""
        return self._tokens

    @property
    def state_bytes(self) -> int:
        """Bytes of the accumulators."""
        return self._sums.numel() * self._sums.element_size()

    def update(
        self, activations: torch.Tensor, errors: torch.Tensor, group: torch.Tensor | None = None
    ) -> None:
        """Adds samples. Memory beyond the arguments is bounded whatever their number.

        Args:
            activations: (N, d) inputs of the head; float32 or float64 (others are taken as float32).
            errors: (N, K) derivatives of the loss by the head's raw output, on the same device.
            group: (N,) sequence or document number of each row; its parity is its half. Without groups
                every row counts for the first half and split self terms are refused later. With
                sample_unit="sequence" they are required, and a sequence's rows stand together, all in
                one update.

        Raises:
            FisherSketchError: shapes do not fit the spec, values are not finite, or groups are missing.
        """
        activations, errors = _floating(activations), _floating(errors)
        self._check(activations, errors, group)
        if len(activations) == 0:
            return
        if self.spec.sample_unit == "sequence" and group is not None:
            self._accumulate(self._sequence_chunks(activations, errors, group))
            self._last_group = int(group[-1])
        else:
            halves = torch.zeros(len(errors), dtype=torch.int64) if group is None else group % 2
            self._accumulate(self._token_chunks(activations, errors, halves.to(errors.device)))
        self._tokens += len(activations)
        self._grouped = group is not None

    def _check(self, activations: torch.Tensor, errors: torch.Tensor, group: torch.Tensor | None) -> None:
        d, k = self.spec.activation_dim, self.spec.error_dim
        for name, tensor, size in (("activations", activations, d), ("errors", errors, k)):
            if tensor.dim() != 2 or tensor.shape[1] != size:
                raise FisherSketchError(f"{name} have shape {tuple(tensor.shape)}: expected (N, {size})")
        if len(activations) != len(errors):
            raise FisherSketchError(f"{len(activations)} activations but {len(errors)} errors: need as many")
        if group is not None and group.shape != (len(activations),):
            raise FisherSketchError(f"group has shape {tuple(group.shape)}: expected ({len(activations)},)")
        if group is None and self.spec.sample_unit == "sequence":
            raise FisherSketchError("group is missing: sample_unit='sequence' needs a sequence number a row")
        if self._grouped is not None and self._grouped != (group is not None):
            raise FisherSketchError(
                "group was given in some updates and not in others: give it always or never"
            )

    def _chunk_rows(self, errors: torch.Tensor) -> int:
        width = self.spec.error_dim + 4 * self.spec.num_features
        return max(1, _CHUNK_BYTES // (width * errors.element_size()))

    def _token_chunks(
        self, activations: torch.Tensor, errors: torch.Tensor, halves: torch.Tensor
    ) -> Iterator[tuple[list[torch.Tensor], torch.Tensor]]:
        """Yields the (B, m) features of each stream and the (B,) halves, a chunk of rows at a time."""
        rows = self._chunk_rows(errors)
        for start in range(0, len(activations), rows):
            chunk = slice(start, start + rows)
            yield self._token_features(activations[chunk], errors[chunk]), halves[chunk]

    def _token_features(self, a: torch.Tensor, e: torch.Tensor) -> list[torch.Tensor]:
        """Returns the (B, m) features of each stream."""
        left_a, right_a = self._activation_projection.project(a)
        left_e, right_e = self._error_projection.project(e)
        phi_a, phi_e = left_a * right_a, left_e * right_e
        features = [phi_a * phi_e, phi_a, phi_e]
        for stream in self.spec.extra_streams:
            if stream == "mean_gradient":
                features.append(left_a * left_e)
            else:
                norms = a.square().sum(1) * e.square().sum(1)  # (B,)
                features.append(features[0] / norms.clamp_min(torch.finfo(norms.dtype).tiny)[:, None])
        return features

    def _sequence_chunks(
        self, activations: torch.Tensor, errors: torch.Tensor, group: torch.Tensor
    ) -> Iterator[tuple[list[torch.Tensor], torch.Tensor]]:
        """Yields the (1, m) features of each stream and the (1,) half, a sequence at a time.

        Raises:
            FisherSketchError: rows of one sequence stand apart.
        """
        ids, lengths = torch.unique_consecutive(group, return_counts=True)
        if len(ids.unique()) != len(ids) or int(ids[0]) == self._last_group:
            raise FisherSketchError("group: the rows of one sequence must stand together, in one update")
        for a, e, number in zip(
            activations.split(lengths.tolist()), errors.split(lengths.tolist()), ids, strict=True
        ):
            features = sequence_features(self._activation_projection, self._error_projection, a, e)
            yield [feature[None] for feature in features], number[None] % 2

    def _accumulate(self, chunks: Iterator[tuple[list[torch.Tensor], torch.Tensor]]) -> None:
        """Adds chunks of features, all or none.

        Raises:
            FisherSketchError: a chunk is not finite.
        """
        sums, counts = torch.zeros_like(self._sums), torch.zeros_like(self._counts)
        for features, halves in chunks:
            selector = torch.stack([halves == 0, halves == 1]).to(torch.float64)  # (2, B)
            for index, phi in enumerate(features):
                sums[:, index] += (selector @ phi.to(torch.float64)).cpu()
            counts += selector.sum(1).to(torch.int64).cpu()
        if not torch.isfinite(sums).all():
            raise FisherSketchError(
                "activations or errors hold NaN or infinite values: the model overflowed; load it in float32 "
                "or bfloat16 rather than float16"
            )
        self._sums += sums
        self._counts += counts

    def merge(self, other: "FisherSketch") -> None:
        """Adds the state of a sketch of other samples of the same task.

        Args:
            other: same spec and provenance, disjoint data.

        Raises:
            FisherSketchError: specs or provenance differ, or only one has groups; says in what.
        """
        difference = self.spec.difference(other.spec) or describe_difference(
            self.provenance, other.provenance
        )
        if difference:
            raise FisherSketchError(f"sketches cannot be merged: {difference}")
        if None not in (self._grouped, other._grouped) and self._grouped != other._grouped:
            raise FisherSketchError("sketches cannot be merged: one was given groups and the other not")
        self._sums += other._sums
        self._counts += other._counts
        self._tokens += other._tokens
        self._grouped = other._grouped if self._grouped is None else self._grouped

    def signature(self, dtype: str = "float32") -> TaskSignature:
        """Returns what is kept of the task: the means of the streams, and the self terms of their halves.

        Args:
            dtype: "float32", "int8" or "int4": how a feature is stored.

        Returns:
            The signature; the sketch can go on streaming.

        Raises:
            FisherSketchError: nothing was streamed yet.
        """
        if self.num_samples == 0:
            raise FisherSketchError("the sketch has seen no samples: update it before asking for a signature")
        return make_signature(
            self.spec, self.provenance, self._sums, self._counts, bool(self._grouped), dtype
        )

    def state(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        """Returns the whole state: tensors, and JSON values, for `from_state`."""
        header = {"spec": self.spec.to_dict(), "provenance": self.provenance, "grouped": self._grouped}
        tokens = torch.tensor([self._tokens, -1 if self._last_group is None else self._last_group])
        return {"sums": self._sums.clone(), "counts": self._counts.clone(), "tokens": tokens}, header

    @classmethod
    def from_state(cls, tensors: Mapping[str, torch.Tensor], header: Mapping[str, Any]) -> "FisherSketch":
        """Returns a sketch that goes on where `state` was taken.

        Args:
            tensors: the tensors of `state`.
            header: its JSON values.

        Returns:
            The sketch.

        Raises:
            FisherSketchError: the tensors do not fit the spec.
        """
        sketch = cls(SketchSpec.from_dict(header["spec"]), header["provenance"])
        if tensors["sums"].shape != sketch._sums.shape or tensors["counts"].shape != (2,):
            raise FisherSketchError(
                "the state of a sketch does not fit its spec: it was cut short or changed"
            )
        sketch._sums, sketch._counts = tensors["sums"].clone(), tensors["counts"].clone()
        sketch._tokens = int(tensors["tokens"][0])
        last = int(tensors["tokens"][1])
        sketch._last_group, sketch._grouped = (None if last < 0 else last), header["grouped"]
        return sketch


def _floating(x: torch.Tensor) -> torch.Tensor:
    return x if x.dtype in (torch.float32, torch.float64) else x.to(torch.float32)
