"""Why tasks with disjoint label sets still align under a softmax over the whole vocabulary."""

import torch

from experiments.relabelling.shared_inputs import RotatedErrors


def shared_mass(
    activations: torch.Tensor,
    rotated: RotatedErrors,
    labels: tuple[torch.Tensor, torch.Tensor],
    label_sets: tuple[torch.Tensor, torch.Tensor],
) -> dict[str, float]:
    r"""Takes the inner product of two tasks apart, by term and by place.

    With u = f'(z) p, which no label enters, the errors are e = u - f'(z) onehot(y). By term,

        (e_s . e'_t)^2 = (u_s . u_t)^2 + 2 (u_s . u_t) v_st + v_st^2,   v_st = e_s . e'_t - u_s . u_t,

    where v_st = - p_s[y'_t] - p_t[y_s] for disjoint label sets and f' = 1. The terms are of either sign and
    cancel: where labels follow the predictions, e has mean 0 and p_t[y_s] is p_s . p_t on average. By place,
    each error is cut into the columns of its own label set and those outside it, where it holds nothing but
    probability. Every sum over s and t is weighted with (a_s . a_t)^2.

    Args:
        activations: Activations (N, d) of both tasks.
        rotated: Their errors.
        labels: The labels (N,) of each task.
        label_sets: The label set of each, disjoint.

    Returns:
        ``joint``, the plain joint alignment; ``joint_from_mass``, what (u_s . u_t)^2 alone contributes to it;
        the shares of the inner product by term, ``share_mass``, ``share_mixed`` and ``share_labels``, whose
        sum is 1, and ``share_same_token``, that of s = t; the probability outside a task's own label set,
        ``outside_first`` and ``outside_second``, means over tokens, and the shares of the errors' squared
        norm there, ``error_outside_first`` and ``error_outside_second``; and the joint alignment once
        errors are 0 in certain columns: ``joint_within``, each outside its own set; ``joint_no_third``, both
        outside either set; ``joint_only_third``, each in the other's set.
    """
    weight = (activations @ activations.T).square()
    shared = rotated.label_free()
    first, second = (rotated.errors(part) for part in labels)
    size = len(rotated.columns)
    in_first, in_second = (torch.zeros(shared.shape[1], dtype=torch.bool) for _ in range(2))
    in_first[:size], in_second[:size] = (torch.isin(rotated.columns, part) for part in label_sets)
    third = ~(in_first | in_second)

    overlap, whole = shared @ shared.T, first @ second.T
    terms = whole - overlap
    inner = float((weight * whole.square()).sum())
    norms = _norm(weight, first) * _norm(weight, second)
    mass = float((weight * overlap.square()).sum())

    def joint(left: torch.Tensor, right: torch.Tensor) -> float:
        cut = first * left, second * right
        product = float((weight * (cut[0] @ cut[1].T).square()).sum())
        return product / (_norm(weight, cut[0]) * _norm(weight, cut[1]))

    probability = shared[:, :size] / rotated.slope
    return {
        "joint": inner / norms,
        "joint_from_mass": mass / norms,
        "share_mass": mass / inner,
        "share_mixed": float((weight * 2 * overlap * terms).sum()) / inner,
        "share_labels": float((weight * terms.square()).sum()) / inner,
        "share_same_token": float((weight * whole.square()).diagonal().sum()) / inner,
        "outside_first": 1 - float(probability[:, in_first[:size]].sum(1).mean()),
        "outside_second": 1 - float(probability[:, in_second[:size]].sum(1).mean()),
        "error_outside_first": float(first[:, ~in_first].square().sum() / first.square().sum()),
        "error_outside_second": float(second[:, ~in_second].square().sum() / second.square().sum()),
        "joint_within": joint(in_first, in_second),
        "joint_no_third": joint(~third, ~third),
        "joint_only_third": joint(~in_second, ~in_first),
    }


def _norm(weight: torch.Tensor, errors: torch.Tensor) -> float:
    """Returns the root of the sum over s and t of (a_s . a_t)^2 (e_s . e_t)^2."""
    return float((weight * (errors @ errors.T).square()).sum()) ** 0.5
