"""The signature of a task: a few kilobytes that stand for its head Fisher matrix."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from fishersketch.errors import FisherSketchError
from fishersketch.provenance import json_values
from fishersketch.quantize import DTYPES, decode, encode
from fishersketch.rotation import rotate, rotate_back
from fishersketch.self_terms import SelfTerms, sketched_self_terms
from fishersketch.spec import SketchSpec

# Steps of equal size suit features without large ones: they are stored rotated.
_ROTATED = ("int8", "int4")


@dataclass(frozen=True, eq=False)
class TaskSignature:
    """Means of the random features of one task, with what is needed to compare it.

    Attributes:
        spec: the recipe of the features.
        provenance: what they were computed from.
        dtype: "float32", "int8" or "int4".
        num_samples: samples in each half.
        self_terms: "plain", and "split" where both halves hold samples.
        payload: stream name to stored tensor.
        factors: stream name to the factor that decodes it.
        extra_self_terms: for each kind of self terms, those of the spec's extra streams by name.
    """

    spec: SketchSpec
    provenance: Mapping[str, Any]
    dtype: str
    num_samples: tuple[int, int]
    self_terms: Mapping[str, SelfTerms]
    payload: Mapping[str, torch.Tensor] = field(repr=False)
    factors: Mapping[str, float] = field(repr=False)
    extra_self_terms: Mapping[str, Mapping[str, float]]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TaskSignature):
            return NotImplemented
        plain = (
            "spec",
            "provenance",
            "dtype",
            "num_samples",
            "self_terms",
            "factors",
            "extra_self_terms",
        )
        return all(getattr(self, name) == getattr(other, name) for name in plain) and all(
            torch.equal(self.payload[name], other.payload[name]) for name in self.payload
        )

    def stream(self, name: str) -> torch.Tensor:
        """Returns a stream's (m,) float64 means.

        Args:
            name: "joint", "activation", "error" or an extra stream of the spec.

        Returns:
            The decoded means.

        Raises:
            FisherSketchError: the spec has no such stream.
        """
        if name not in self.payload:
            raise FisherSketchError(
                f"the signature has no stream {name!r}: it holds {', '.join(self.payload)}"
            )
        vector = decode(self.payload[name], self.factors[name], self.dtype, self.spec.num_features)
        return rotate_back(vector) if self.dtype in _ROTATED else vector

    @property
    def signature_bytes(self) -> int:
        """Bytes of the joint payload; the file holds the marginals, as large each, and a header too."""
        return self.payload["joint"].numel() * self.payload["joint"].element_size()

    def save(self, path: str | Path) -> None:
        """Writes the signature as one safetensors file, whole or not at all.

        Args:
            path: the file; an older one is replaced.

        Raises:
            FisherSketchError: the file cannot be written; names it.
        """
        from fishersketch.signature_file import save_signature

        save_signature(self, Path(path))

    @classmethod
    def load(cls, path: str | Path) -> "TaskSignature":
        """Reads a signature; safe on a file from anywhere.

        Args:
            path: a file that `save` wrote.

        Returns:
            The signature, equal to the one saved.

        Raises:
            FisherSketchError: the file is missing, cut short, changed or not a signature; names it.
        """
        from fishersketch.signature_file import load_signature

        return load_signature(Path(path))


def make_signature(
    spec: SketchSpec,
    provenance: Mapping[str, Any],
    sums: torch.Tensor,
    counts: torch.Tensor,
    grouped: bool,
    dtype: str,
) -> TaskSignature:
    """Makes a signature from the accumulators of a sketch.

    Args:
        spec: the recipe.
        provenance: what the samples came from.
        sums: (2, streams, m) float64 sums of features by half.
        counts: (2,) samples by half.
        grouped: whether the halves are those of groups.
        dtype: how features are stored.

    Returns:
        The signature.

    Raises:
        FisherSketchError: the dtype is unknown, or the features are too large to square.
    """
    if dtype not in DTYPES:
        raise FisherSketchError(f"dtype={dtype!r}: must be one of {', '.join(DTYPES)}")
    mean = sums.sum(0) / counts.sum()  # (streams, m)
    pairs = {"plain": (mean, mean)}
    if grouped and bool((counts > 0).all()):
        halves = sums / counts[:, None, None]
        pairs["split"] = (halves[0], halves[1])
    terms = {kind: sketched_self_terms(first[:3], second[:3]) for kind, (first, second) in pairs.items()}
    extra = {
        kind: {
            name: float(first[index] @ second[index]) / spec.num_features
            for index, name in enumerate(spec.streams)
            if name in spec.extra_streams
        }
        for kind, (first, second) in pairs.items()
    }
    values = [term.to_dict().values() for term in terms.values()]
    values += [of_streams.values() for of_streams in extra.values()]
    if not all(math.isfinite(value) for row in values for value in row):
        raise FisherSketchError("self terms overflow float64: scale activations and errors down")
    kept = [rotate(stream) for stream in mean] if dtype in _ROTATED else list(mean)
    stored = {name: encode(stream, dtype) for name, stream in zip(spec.streams, kept, strict=True)}
    return TaskSignature(
        spec=spec,
        provenance=json_values(provenance),
        dtype=dtype,
        num_samples=(int(counts[0]), int(counts[1])),
        self_terms=terms,
        payload={name: codes for name, (codes, _) in stored.items()},
        factors={name: factor for name, (_, factor) in stored.items()},
        extra_self_terms=extra,
    )
