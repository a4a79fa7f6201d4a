"""Perplexity reductions: what fine-tuning on a source takes off a target's held-out perplexity."""

import numpy as np

from experiments.draws import indices


def perplexity_reductions(base_loss: np.ndarray, tuned_loss: np.ndarray) -> dict[str, np.ndarray]:
    r"""Reductions of every target's perplexity by every source.

    With L the mean held-out loss in nats/token, PPL = exp(L) and, the mean over fine-tuning seeds taken,

        absolute_ij = PPL_base,j - PPL_tuned,ij  (perplexity, of which a uniform guess over K tokens has K),
        relative_ij = absolute_ij / PPL_base,j   (a share of 1).

    The relative reduction of one seed is 1 - exp(-gain): it ranks pairs as the gain in nats/token does. The
    absolute one also ranks targets, by how much perplexity there is to lose.

    Args:
        base_loss: Loss of every held-out window under the base model (..., T, W), in nats/token.
        tuned_loss: The same after fine-tuning (..., S, T, T, W), [seed, source, target, window].

    Returns:
        The matrices (..., T, T) by the names ``absolute`` and ``relative``.
    """
    base = np.exp(base_loss.mean(axis=-1))[..., None, :]  # (..., 1, T)
    tuned = np.exp(tuned_loss.mean(axis=-1)).mean(axis=-3)  # (..., T, T)
    return {"absolute": base - tuned, "relative": 1 - tuned / base}


def resampled_reductions(
    base_loss: np.ndarray, tuned_loss: np.ndarray, *, seed: int, resamples: int
) -> dict[str, np.ndarray]:
    """Reductions with each target's held-out windows drawn anew, with replacement.

    Args:
        base_loss: (T, W) losses, in nats/token.
        tuned_loss: (S, T, T, W) losses; a target's windows are the same for base, seeds and sources.
        seed: Seed of the draws.
        resamples: Number of draws, R.

    Returns:
        As `perplexity_reductions`, (R, T, T).
    """
    targets, windows = base_loss.shape
    drawn = indices("held-out windows", seed, (resamples, targets, windows), windows)
    found = [
        perplexity_reductions(
            np.take_along_axis(base_loss, draw, axis=-1),
            np.take_along_axis(tuned_loss, draw[None, None], axis=-1),
        )
        for draw in drawn
    ]
    return {name: np.stack([reductions[name] for reductions in found]) for name in ("absolute", "relative")}
