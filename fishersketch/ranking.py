"""One target against many sources: the alignments that rank the sources, without those between sources."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from fishersketch.alignment import self_terms_of
from fishersketch.controlled import STREAMS, controlled_influence
from fishersketch.errors import FisherSketchError
from fishersketch.provenance import describe_difference
from fishersketch.signature import TaskSignature


@dataclass(frozen=True, eq=False)
class TargetAlignment:
    """Alignments of S sources with one target, each (S,) float64, as `Alignment` has them.

    Attributes:
        joint: S_ae.
        activation: S_a.
        error: S_e.
        coupling: rho; S_ae = S_a S_e rho.
        stderr_sketch: standard error of `joint` from the random features.
    """

    joint: torch.Tensor
    activation: torch.Tensor
    error: torch.Tensor
    coupling: torch.Tensor
    stderr_sketch: torch.Tensor

    @property
    def order(self) -> list[int]:
        """Sources, highest joint alignment first, ties as given, undefined ones last."""
        joint = self.joint.tolist()
        return sorted(range(len(joint)), key=lambda i: (joint[i] != joint[i], -joint[i], i))


def align_to(
    target: TaskSignature, sources: Sequence[TaskSignature], self_terms: str = "split"
) -> TargetAlignment:
    r"""Estimates the alignments of sources with a target: a column of `align`, in time S m.

    Args:
        target: the signature to rank for.
        sources: at least one, made under the spec and provenance of the target.
        self_terms: "split" or "plain".

    Returns:
        The alignments, in the order given.

    Raises:
        FisherSketchError: a source is not comparable (says in what), or split self terms are asked of a
            signature without two halves.

    >>> from fishersketch import FisherSketch, SketchSpec
    >>> sketch = FisherSketch(SketchSpec(3, 5, num_features=8))
    >>> sketch.update(torch.eye(3), torch.eye(3, 5))
    >>> align_to(sketch.signature(), [sketch.signature()], "plain").joint.round(decimals=3)
    tensor([1.], dtype=torch.float64)
    """
    if not sources:
        raise FisherSketchError("no sources given: nothing to align")
    for number, source in enumerate(sources):
        difference = difference_of(target, source)
        if difference:
            raise FisherSketchError(f"source {number} cannot be compared with the target: {difference}")
    mine = self_terms_of(target, "the target", self_terms)
    theirs = [self_terms_of(source, f"source {number}", self_terms) for number, source in enumerate(sources)]
    m = target.spec.num_features
    streams = {
        name: torch.stack([source.stream(name) for source in sources])  # (S, m)
        for name in ("joint", "activation", "error")
    }
    own = {name: target.stream(name) for name in streams}
    streams["separable"] = streams["activation"] * streams["error"]
    own["separable"] = own["activation"] * own["error"]
    theirs_unit = {
        name: features / _root([getattr(terms, name) for terms in theirs])[:, None]
        for name, features in streams.items()
    }
    own_unit = {name: features / _root([getattr(mine, name)]) for name, features in own.items()}
    cosine = {name: theirs_unit[name] @ own_unit[name] / m for name in streams}
    joint, influence = controlled_influence(own_unit, theirs_unit, cosine)
    product = cosine["separable"]
    return TargetAlignment(
        joint=joint,
        activation=cosine["activation"],
        error=cosine["error"],
        coupling=cosine["joint"] / torch.where(product == 0, torch.nan, product),
        stderr_sketch=_standard_error(influence),
    )


def stderr_of_difference(
    target: TaskSignature, first: TaskSignature, second: TaskSignature, self_terms: str = "split"
) -> float:
    """Returns the standard error, from the random features, of the joint alignments' difference.

    The two alignments share the target's features, so the error is not that of independent ones.

    Args:
        target: the signature to rank for.
        first: a source.
        second: another.
        self_terms: "split" or "plain".
    """
    terms = [
        self_terms_of(signature, name, self_terms)
        for signature, name in ((target, "the target"), (first, "the first"), (second, "the second"))
    ]
    units = [
        {
            "joint": signature.stream("joint") / _root([term.joint]),
            "activation": signature.stream("activation") / _root([term.activation]),
            "error": signature.stream("error") / _root([term.error]),
            "separable": signature.stream("activation") * signature.stream("error") / _root([term.separable]),
        }
        for signature, term in zip((target, first, second), terms, strict=True)
    ]
    sources = {name: torch.stack([unit[name] for unit in units[1:]]) for name in STREAMS}  # (2, m)
    cosine = {name: sources[name] @ units[0][name] / sources[name].shape[1] for name in STREAMS}
    _, influence = controlled_influence(units[0], sources, cosine)
    return float(_standard_error(influence[:1] - influence[1:]))


def difference_of(first: TaskSignature, second: TaskSignature) -> str:
    """Returns in what two signatures' spec or provenance differ, as text; empty where they compare."""
    return first.spec.difference(second.spec) or describe_difference(
        dict(first.provenance), dict(second.provenance)
    )


def _influence(target: torch.Tensor, sources: torch.Tensor, cosine: torch.Tensor) -> torch.Tensor:
    """Returns (S, m): what each feature adds to a cosine, to first order (the delta method)."""
    return sources * target - cosine[:, None] * (sources.square() + target.square()) / 2


def _standard_error(influence: torch.Tensor) -> torch.Tensor:
    count = influence.shape[1]
    if count == 1:  # one feature has no spread
        return torch.full((len(influence),), torch.nan, dtype=torch.float64)
    return influence.std(1) / count**0.5


def _root(squares: Sequence[float]) -> torch.Tensor:
    values = torch.as_tensor(squares, dtype=torch.float64)
    return torch.where(values > 0, values, torch.nan).sqrt()
