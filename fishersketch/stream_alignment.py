"""Cosines of one stream of signatures, such as the extra streams that a spec may ask for."""

from collections.abc import Sequence

import torch

from fishersketch.alignment import check_comparable, cosines, self_terms_of
from fishersketch.errors import FisherSketchError
from fishersketch.signature import TaskSignature


def align_stream(signatures: Sequence[TaskSignature], name: str, self_terms: str = "split") -> torch.Tensor:
    r"""Estimates how alike tasks are in what one stream sketches.

    With psi the means of the stream's features, cos_ij = psi_i . psi_j / sqrt(psi_i . psi_i psi_j . psi_j),
    the self terms taken between the halves of a task where they are split.

    For "mean_gradient", psi sketches G = E[e a^T] and the result estimates the cosine of mean gradients, in
    [-1, 1] but for the sketch's error. For "unit_joint", psi sketches E[u u^T] of the gradients
    u = (a/|a|) (x) (e/|e|), and the result estimates the joint alignment of tasks in which every sample
    weighs the same, so that no outlier rules a task. "activation" and "error" give those
    of `align`, "joint" the cosine that `align` corrects by the marginals.

    Args:
        signatures: made under one spec and provenance, at least one.
        name: a stream of their spec.
        self_terms: "split" or "plain", as in `align`.

    Returns:
        (T, T) float64, symmetric, the diagonal 1. Cosines are never clipped; a self term that is not
        positive (of halves whose mean gradients point apart, for example) leaves its row and column NaN.

    Raises:
        FisherSketchError: signatures are not comparable, their spec lacks the stream, or split self terms
            are asked of a signature without two halves.

    >>> from fishersketch import FisherSketch, SketchSpec
    >>> spec = SketchSpec(2, 3, num_features=64, extra_streams=("mean_gradient",))
    >>> signatures = []
    >>> for sign in (1.0, -1.0):
    ...     sketch = FisherSketch(spec)
    ...     sketch.update(torch.ones(2, 2), sign * torch.tensor([[1.0, -1.0, 0.0]] * 2), torch.tensor([0, 1]))
    ...     signatures.append(sketch.signature())
    >>> [round(float(align_stream(signatures, name)[0, 1]), 6) for name in ("mean_gradient", "joint")]
    [-1.0, 1.0]
    """
    if not signatures:
        raise FisherSketchError("no signatures given: nothing to align")
    check_comparable(signatures)
    spec = signatures[0].spec
    means = torch.stack([signature.stream(name) for signature in signatures])  # (T, m)
    own = []
    for number, signature in enumerate(signatures):
        terms = self_terms_of(signature, f"signature {number}", self_terms)
        extra = name in spec.extra_streams
        own.append(signature.extra_self_terms[self_terms][name] if extra else getattr(terms, name))
    return cosines(means @ means.T / spec.num_features, own)
