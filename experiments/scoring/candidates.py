"""Which sources are candidates for which targets: boolean masks [source, target]."""

from collections.abc import Sequence

import numpy as np

from experiments.errors import UserError


def all_others(count: int) -> np.ndarray:
    """Returns the mask (T, T) of every source but the target itself."""
    return ~np.eye(count, dtype=bool)


def within_groups(groups: Sequence[str]) -> np.ndarray:
    """Returns the mask (T, T) of the other sources of the target's own group."""
    names = np.asarray(groups)
    return (names[:, None] == names[None, :]) & all_others(len(names))


def without_siblings(overlap: np.ndarray, limit: float) -> np.ndarray:
    """Leaves out sources whose training text holds more than a share of the target's held-out text.

    Args:
        overlap: Share of the held-out spans of target j found in source i's training text (T, T).
        limit: Largest share allowed, 0 to 1.

    Returns:
        The mask (T, T).
    """
    return (np.asarray(overlap) <= limit) & all_others(len(overlap))


def checked(gain: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
    """Returns the candidate mask (T, T) without its diagonal, after a check of the gains it lets in.

    Raises:
        UserError: For shapes that do not fit, or a candidate whose gain is not finite.
    """
    count = gain.shape[-1]
    if gain.shape != (count, count) or (mask is not None and np.shape(mask) != gain.shape):
        shapes = f"{gain.shape} and mask {np.shape(mask)}" if mask is not None else f"{gain.shape}"
        raise UserError(f"gain {shapes}: both must be (T, T), [source, target]")
    valid = all_others(count) if mask is None else np.asarray(mask, dtype=bool) & all_others(count)
    if not np.isfinite(gain[valid]).all():
        source, target = np.argwhere(valid & ~np.isfinite(gain))[0]
        raise UserError(f"gain[{source}, {target}]={gain[source, target]}: a candidate's gain must be finite")
    return valid
