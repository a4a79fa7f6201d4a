"""Features of one sequence's summed gradient G = sum_t e_t a_t^T."""

import torch

from fishersketch.projections import Projection


def sequence_features(
    activation_projection: Projection, error_projection: Projection, a: torch.Tensor, e: torch.Tensor
) -> list[torch.Tensor]:
    r"""Returns the joint, activation and error features of one sequence.

        joint       (x^T G w)(x'^T G w')
        activation  w^T G^T G w'  = sum_(t,s) (w.a_t)(e_t.e_s)(w'.a_s)
        error       x^T G G^T x'  = sum_(t,s) (x.e_t)(a_t.a_s)(x'.e_s)

    so that the marginals need the L x L Gram matrices of the sequence and never G itself.

    Args:
        activation_projection: w and w'.
        error_projection: x and x'.
        a: (L, d) activations of the sequence's tokens.
        e: (L, K) their errors.

    Returns:
        Three (m,) tensors.
    """
    left_a, right_a = activation_projection.project(a)  # (L, m)
    left_e, right_e = error_projection.project(e)  # (L, m)
    joint = (left_a * left_e).sum(0) * (right_a * right_e).sum(0)
    activation = (left_a * (e @ e.T @ right_a)).sum(0)
    error = (left_e * (a @ a.T @ right_e)).sum(0)
    return [joint, activation, error]
