"""The streaming estimator: one pass over a task's (activation, error) pairs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import torch

from fishersketch.errors import FisherSketchError, NotFiniteError
from fishersketch.provenance import describe_difference, json_values
from fishersketch.samples import all_finite, check_samples, sequence_lengths, working_dtype
from fishersketch.sequence_features import sequence_chunks
from fishersketch.signature import TaskSignature, make_signature
from fishersketch.spec import SketchSpec
from fishersketch.token_features import token_chunks

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

    # Counts up when the same samples give other features: states kept by an older recipe are not used.
    RECIPE = 1

    def __init__(self, spec: SketchSpec, provenance: Mapping[str, Any] | None = None):
        self.spec = spec
        self.provenance = json_values(provenance or {})
        self._projections = spec.projections()
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
        """Adds samples, all or none. Memory beyond the arguments is bounded whatever their number.

        Features are computed in float64 where an argument is float64, else in float32, also under
        autocast, and without gradients. With sample_unit="sequence" memory grows with the longest
        sequence, by 4 m numbers a row and its L x L Gram matrices.

        Args:
            activations: (N, d) inputs of the head, of any floating type.
            errors: (N, K) derivatives of the loss by the head's raw output, on the same device.
            group: (N,) sequence or document number of each row, from 0; its parity is its half. Without
                groups every row counts for the first half and split self terms are refused later. With
                sample_unit="sequence" they are required, and a sequence's rows stand together, all in
                one update.

        Raises:
            FisherSketchError: shapes do not fit the spec, values are not finite, or groups are missing.
        """
        self._check(activations, errors, group)
        if len(activations) == 0:
            return
        with torch.no_grad(), torch.autocast(errors.device.type, enabled=False):
            sums, counts = self._sum_features(activations, errors, group)
        if not torch.isfinite(sums).all():
            _refuse_not_finite(activations, errors)
        self._sums, self._counts = self._sums + sums, self._counts + counts
        self._tokens += len(activations)
        self._grouped = group is not None
        self._last_group = None if group is None else int(group[-1])

    def _check(self, activations: torch.Tensor, errors: torch.Tensor, group: torch.Tensor | None) -> None:
        check_samples(activations, errors, group)
        d, k = self.spec.activation_dim, self.spec.error_dim
        for name, tensor, size in (("activations", activations, d), ("errors", errors, k)):
            if tensor.shape[1] != size:
                raise FisherSketchError(f"{name} have shape {tuple(tensor.shape)}: expected (N, {size})")
        if group is None and self.spec.sample_unit == "sequence":
            raise FisherSketchError("group is missing: sample_unit='sequence' needs a sequence number a row")
        if self._grouped is not None and self._grouped != (group is not None):
            raise FisherSketchError(
                "group was given in some updates and not in others: give it always or never"
            )
        if self.spec.sample_unit == "sequence" and group is not None and len(group):
            sequence_lengths(group)
            if int(group[0]) == self._last_group:
                raise FisherSketchError(
                    f"group: sequence {self._last_group} goes on from the last update; give it in one update"
                )

    def _sum_features(
        self, activations: torch.Tensor, errors: torch.Tensor, group: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the (2, streams, m) sums of features and the (2,) counts of samples, by half."""
        dtype = working_dtype(activations, errors)
        width = self.spec.activation_dim + self.spec.error_dim + 4 * self.spec.num_features
        rows = max(1, _CHUNK_BYTES // (width * dtype.itemsize))
        if self.spec.sample_unit == "sequence" and group is not None:
            chunks = sequence_chunks(self._projections, activations, errors, group, dtype, rows)
        else:
            chunks = token_chunks(
                self._projections, activations, errors, group, dtype, rows, self.spec.extra_streams
            )
        sums, counts = torch.zeros_like(self._sums), torch.zeros_like(self._counts)
        for features, halves in chunks:
            selector = torch.stack([halves == 0, halves == 1]).to(torch.float64)  # (2, B)
            for index, phi in enumerate(features):
                sums[:, index] += (selector @ phi.to(torch.float64)).cpu()
            counts += selector.sum(1).to(torch.int64).cpu()
        return sums, counts

    def merge(self, other: "FisherSketch") -> None:
        """Adds the state of a sketch of other samples of the same task.

        Args:
            other: same spec and provenance, disjoint data.

        Raises:
            FisherSketchError: specs or provenance differ, or only one has groups; says in what.
        """
        if other is self:
            raise FisherSketchError("a sketch cannot be merged with itself: its samples would count twice")
        difference = self.spec.difference(other.spec) or describe_difference(
            self.provenance, other.provenance
        )
        if difference:
            raise FisherSketchError(f"sketches cannot be merged: {difference}")
        if None not in (self._grouped, other._grouped) and self._grouped != other._grouped:
            raise FisherSketchError("sketches cannot be merged: one was given groups and the other not")
        self._sums, self._counts = self._sums + other._sums, self._counts + other._counts
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
        header = {
            "spec": self.spec.to_dict(),
            "provenance": json_values(self.provenance),
            "grouped": self._grouped,
        }
        tokens = torch.tensor([self._tokens, -1 if self._last_group is None else self._last_group])
        return {"sums": self._sums.clone(), "counts": self._counts.clone(), "tokens": tokens}, header

    def save(self, path: str | Path) -> None:
        """Writes the state as one safetensors file, whole or not at all, for `load` and `merge` elsewhere.

        Args:
            path: the file; an older one is replaced.

        Raises:
            FisherSketchError: the file cannot be written; names it.
        """
        from fishersketch.sketch_file import save_sketch

        save_sketch(self, Path(path))

    @classmethod
    def load(cls, path: str | Path) -> "FisherSketch":
        """Reads a sketch that can go on streaming.

        Args:
            path: a file that `save` wrote.

        Returns:
            The sketch.

        Raises:
            FisherSketchError: the file is missing, damaged or no sketch; names it.
        """
        from fishersketch.sketch_file import load_sketch

        return load_sketch(Path(path))

    def __reduce__(self) -> tuple[Any, ...]:
        return FisherSketch.from_state, self.state()  # a copy draws its projections anew, or shares them

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
        try:
            sketch = cls(SketchSpec.from_dict(header["spec"]), header["provenance"])
            sums, counts = tensors["sums"].clone(), tensors["counts"].clone()
            tokens, last = tensors["tokens"].tolist()
            grouped = header["grouped"]
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise FisherSketchError(
                f"the state of a sketch is not whole ({error!r}): make it again"
            ) from error
        for name, mine, theirs in (("sums", sketch._sums, sums), ("counts", sketch._counts, counts)):
            if mine.shape != theirs.shape or mine.dtype != theirs.dtype or not all_finite(theirs):
                raise FisherSketchError(f"the state of a sketch does not fit its spec: {name}; make it again")
        sketch._sums, sketch._counts, sketch._tokens, sketch._grouped = sums, counts, tokens, grouped
        sketch._last_group = None if last < 0 else last
        return sketch


def _refuse_not_finite(activations: torch.Tensor, errors: torch.Tensor) -> NoReturn:
    for name, rows in (("activations", activations), ("errors", errors)):
        if not all_finite(rows):
            raise NotFiniteError(
                f"{name} hold NaN or infinite values: the model overflowed; load it in float32 or bfloat16 "
                "rather than float16"
            )
    raise NotFiniteError("features overflow float32: scale activations and errors down, or give float64")
