"""What Fisher alignment forgets: (e . e')^2 cannot tell gradients that agree from those that oppose."""

from collections.abc import Mapping

import numpy as np
import torch

from experiments.relabelling.shared_inputs import SharedInputs
from experiments.scoring.correlation import spearman
from fishersketch import exact_align
from fishersketch.baselines import exact_mean_gradient_cosines


def swapped_scores(
    inputs: SharedInputs, classes: torch.Tensor, tokens: Mapping[str, torch.Tensor]
) -> dict[str, np.ndarray]:
    """Compares each verbalizer with itself, its two words swapped: the source that harms it most.

    Args:
        inputs: The head's inputs and raw outputs at the prompts' ends, float64.
        classes: Class of each prompt (N,).
        tokens: Token ids (2,) of each of V verbalizers.

    Returns:
        ``joint`` and ``mean_gradient`` between a verbalizer and its swapped form (V,), errors over the whole
        vocabulary.
    """
    rotated = inputs.rotated(torch.cat(list(tokens.values())).unique())
    joint, signed = [], []
    for pair in tokens.values():
        both = [(inputs.activations, rotated.errors(pair[order])) for order in (classes, 1 - classes)]
        joint.append(float(exact_align([(a, e, None) for a, e in both], "plain").joint[0, 1]))
        signed.append(float(exact_mean_gradient_cosines(both)[0, 1]))
    return {"joint": np.array(joint), "mean_gradient": np.array(signed)}


def mechanism(
    scores: Mapping[str, np.ndarray],
    swapped: Mapping[str, np.ndarray],
    gain: np.ndarray,
    swapped_gain: np.ndarray,
    mask: np.ndarray,
) -> dict[str, float]:
    """Sums up how squares and signs of gradients relate to the gains.

    Args:
        scores: Scores (T, T), [source, target], with ``joint`` and ``mean_gradient``.
        swapped: What `swapped_scores` gave, (T,).
        gain: Gain (T, T), the diagonal a verbalizer's own, in nats per answer.
        swapped_gain: Gain (T, T) of each target with its words swapped.
        mask: Candidates (T, T).

    Returns:
        Means over targets: ``joint_swapped`` and ``mean_gradient_swapped``, similarity to the swapped form;
        ``gain_own``, from training on the verbalizer itself, ``gain_swapped``, what that does to the swapped
        form, and ``gain_others``, to other verbalizers; ``joint_prefers_swapped`` and
        ``mean_gradient_prefers_swapped``, the share of targets for which the swapped form outranks every
        candidate; ``negative_gains``, the share of candidates that raise the target's loss. Of each target's
        first pick by ``joint`` and by ``mean_gradient``: ``<score>_pick_opposes``, the share whose mean
        gradient opposes the target's, and ``<score>_pick_gain``, its mean gain. And the mean Spearman over a
        target's candidates of ``joint`` with the mean-gradient cosine, ``joint_with_signed``, and with its
        size, ``joint_with_size``.
    """
    valid = mask & ~np.eye(len(gain), dtype=bool)
    best = {name: np.where(valid, scores[name], -np.inf).max(axis=0) for name in ("joint", "mean_gradient")}
    targets = np.arange(len(gain))
    picks = {name: np.where(valid, scores[name], -np.inf).argmax(axis=0) for name in best}
    signed = scores["mean_gradient"]
    of_picks = {
        f"{name}_pick_opposes": float((signed[pick, targets] < 0).mean()) for name, pick in picks.items()
    } | {f"{name}_pick_gain": float(gain[pick, targets].mean()) for name, pick in picks.items()}
    ranks = {
        name: float(
            np.nanmean([spearman(scores["joint"][valid[:, j], j], with_[valid[:, j], j]) for j in targets])
        )
        for name, with_ in (("joint_with_signed", signed), ("joint_with_size", np.abs(signed)))
    }
    return (
        of_picks
        | ranks
        | {
            "joint_swapped": float(swapped["joint"].mean()),
            "mean_gradient_swapped": float(swapped["mean_gradient"].mean()),
            "gain_own": float(gain.diagonal().mean()),
            "gain_swapped": float(swapped_gain.diagonal().mean()),
            "gain_others": float(gain[valid].mean()),
            "joint_prefers_swapped": float((swapped["joint"] > best["joint"]).mean()),
            "mean_gradient_prefers_swapped": float((swapped["mean_gradient"] > best["mean_gradient"]).mean()),
            "negative_gains": float((gain[valid] < 0).mean()),
        }
    )
