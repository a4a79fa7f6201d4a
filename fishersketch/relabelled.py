"""What alignment to expect of tasks that are unrelated but for their activations."""

from collections.abc import Sequence

import torch

from fishersketch.alignment import align
from fishersketch.errors import FisherSketchError
from fishersketch.signature import TaskSignature


def relabelled_joint(signatures: Sequence[TaskSignature], self_terms: str = "split") -> torch.Tensor:
    r"""Estimates the mean joint alignment of two tasks after a random relabelling of one task's outputs.

    All tasks of one model share much of their activations, so that 0 is no fair picture of "unrelated".
    This is: activations, errors and their sizes stay as they are, sample by sample, and only which output
    an error falls on is drawn anew, by a uniform permutation of the K outputs. For errors that sum to zero,
    as those of softmax cross-entropy do, the mean over permutations is exactly

        <N_i, N_j> / ((K - 1) |F_i| |F_j|),   N = E[|e|^2 a a^T],

    since the permuted E[e_u e_v a a^T] has the mean N / K where u = v and -N / (K (K - 1)) elsewhere.
    Random rotations of the errors within those that sum to zero give the same. It is near 0 where K is
    large and can be most of an alignment where K is small. A pair is told from unrelated where its joint
    alignment exceeds this by a few of its standard errors.

    Args:
        signatures: Of a spec with the extra stream "weighted_activation".
        self_terms: "split" or "plain", as in `align`.

    Returns:
        (T, T) float64, symmetric, its diagonal NaN.

    Raises:
        FisherSketchError: signatures are not comparable, or lack the stream or the self terms.
    """
    table = align(signatures, self_terms)  # checks them
    spec = signatures[0].spec
    if spec.error_dim < 2:
        raise FisherSketchError(f"error_dim={spec.error_dim}: relabelling needs two outputs")
    moments = torch.stack([signature.stream("weighted_activation") for signature in signatures])  # (T, m)
    squares = torch.tensor([s.self_terms[self_terms].joint for s in signatures], dtype=torch.float64)
    norms = torch.where(squares > 0, squares, torch.nan).sqrt()
    inner = moments @ moments.T / spec.num_features / (spec.error_dim - 1)
    return (inner / norms[:, None] / norms).where(table.joint.isfinite(), torch.nan).fill_diagonal_(torch.nan)
