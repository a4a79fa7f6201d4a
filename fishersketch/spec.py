"""What a sketch computes: sizes, projection, sample unit and seed."""

from dataclasses import asdict, dataclass, fields
from numbers import Integral
from typing import Any

from fishersketch.errors import FisherSketchError
from fishersketch.projections import Projection, make_projection
from fishersketch.provenance import describe_difference

SAMPLE_UNITS = ("token", "sequence")
EXTRA_STREAMS = ("mean_gradient", "unit_joint", "weighted_activation")
_PROJECTIONS = ("rademacher", "hadamard", "block_hadamard")


@dataclass(frozen=True)
class SketchSpec:
    """The recipe of a sketch. Signatures made by different recipes cannot be compared.

    Args:
        activation_dim: d, size of the input of the output head.
        error_dim: K, size of the head's output.
        num_features: m, random features; the error of an alignment falls as 1 / sqrt(m).
        projection: "block_hadamard", "hadamard" or "rademacher".
        sample_unit: "token", or "sequence" to sum the gradients of a sequence into one sample.
        seed: draws the projections and nothing else.
        extra_streams: any of "mean_gradient" (signed first moment of the gradient), "unit_joint" (the joint
            features of samples scaled to |a| = |e| = 1) and "weighted_activation" (E[|e|^2 a a^T], for
            `relabelled_joint`); token unit only.

    Raises:
        FisherSketchError: a value is out of range; the message names it.

    >>> SketchSpec(576, 49152).num_features
    4096
    """

    activation_dim: int
    error_dim: int
    num_features: int = 4096
    projection: str = "block_hadamard"
    sample_unit: str = "token"
    seed: int = 0
    extra_streams: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, least in (("activation_dim", 1), ("error_dim", 1), ("num_features", 1), ("seed", 0)):
            value = getattr(self, name)
            if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
                raise FisherSketchError(f"{name}={value!r}: must be a whole number of at least {least}")
            object.__setattr__(self, name, int(value))
        for name, choices in (("projection", _PROJECTIONS), ("sample_unit", SAMPLE_UNITS)):
            if getattr(self, name) not in choices:
                raise FisherSketchError(
                    f"{name}={getattr(self, name)!r}: must be one of {', '.join(choices)}"
                )
        streams = self.extra_streams
        if isinstance(streams, str) or not all(stream in EXTRA_STREAMS for stream in streams):
            raise FisherSketchError(
                f"extra_streams={streams!r}: must be a tuple of {', '.join(EXTRA_STREAMS)}"
            )
        if len(set(streams)) != len(streams):
            raise FisherSketchError(f"extra_streams={streams!r}: names a stream twice")
        object.__setattr__(self, "extra_streams", tuple(streams))
        if self.extra_streams and self.sample_unit != "token":
            raise FisherSketchError("extra_streams: need sample_unit='token'")

    @property
    def streams(self) -> tuple[str, ...]:
        """Names of the accumulated streams: joint, activation, error, then the extra ones."""
        return ("joint", "activation", "error", *self.extra_streams)

    @property
    def state_bytes(self) -> int:
        """Bytes of the streaming state: streams x 2 halves x m x 8."""
        return len(self.streams) * 2 * self.num_features * 8

    def projections(self) -> tuple[Projection, Projection]:
        """Returns the projections of activations and of errors; they depend on sizes, m, kind and seed."""
        stem = f"fishersketch/{self.projection}/m={self.num_features}/seed={self.seed}"
        return (
            make_projection(
                self.projection,
                self.activation_dim,
                self.num_features,
                f"{stem}/activation/{self.activation_dim}",
            ),
            make_projection(
                self.projection, self.error_dim, self.num_features, f"{stem}/error/{self.error_dim}"
            ),
        )

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON values."""
        return {**asdict(self), "extra_streams": list(self.extra_streams)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "SketchSpec":
        """Makes a spec from `to_dict`'s fields.

        Args:
            values: exactly the fields of a spec.

        Returns:
            The spec.

        Raises:
            FisherSketchError: a field is missing, unknown or out of range.
        """
        names = {field.name for field in fields(cls)}
        if not isinstance(values, dict):
            raise FisherSketchError("spec is no dictionary of its fields")
        if set(values) != names:
            raise FisherSketchError(f"spec has fields {sorted(values)}: expected {sorted(names)}")
        return cls(**{**values, "extra_streams": tuple(values["extra_streams"])})

    def difference(self, other: "SketchSpec") -> str:
        """Returns the fields in which two specs differ, as text; empty where they are equal."""
        return describe_difference(self.to_dict(), other.to_dict())
