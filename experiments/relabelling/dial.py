"""A dial that moves label overlap from 0 to 1 while inputs and representations stay as they are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from experiments.relabelling.label_map import label_map
from experiments.relabelling.shared_inputs import SharedInputs, union
from experiments.relabelling.witness import SOFTMAXES, exact_pair, representation_metrics

_FACTORS = ("joint", "activation", "error", "coupling")


@dataclass(frozen=True)
class Dial:
    """What a text's two tasks are to each other at S label seeds and P overlaps.

    Attributes:
        alignments: For each of `SOFTMAXES` and each factor, (S, P) float64; a coupling is NaN where the
            errors are orthogonal.
        representations: For each representation metric, (P,).
        token_overlap: Share of the tokens that have the same label in both tasks (S, P).
    """

    alignments: dict[str, dict[str, np.ndarray]]
    representations: dict[str, np.ndarray]
    token_overlap: np.ndarray


def turn_dial(
    inputs: SharedInputs,
    repeated: torch.Tensor,
    domain: str,
    overlaps: Sequence[float],
    seeds: Sequence[int],
    components: int,
) -> Dial:
    """Aligns a text with its own relabellings.

    Args:
        inputs: The text's head inputs and raw outputs, float64.
        repeated: Activations (N, d) of another pass over the same inputs, the second task's.
        domain: Name of the text.
        overlaps: Shares of label types that both tasks have (P,).
        seeds: Seeds of the relabellings (S,).
        components: At most so many singular directions in SVCCA.

    Returns:
        The dial.
    """
    maps = [label_map(inputs.labels, inputs.raw.shape[1], domain, seed) for seed in seeds]
    columns = union([part for drawn in maps for part in (drawn.types, drawn.replacements)])
    rotated = inputs.rotated(columns)
    own_full = rotated.errors(inputs.labels)
    shape = (len(seeds), len(overlaps))
    found = {kind: {name: np.empty(shape) for name in _FACTORS} for kind in SOFTMAXES}
    token_overlap = np.empty(shape)
    for s, drawn in enumerate(maps):
        own = inputs.errors_within(inputs.labels, drawn.types, columns)
        for p, overlap in enumerate(overlaps):
            labels = drawn.relabel(inputs.labels, overlap)
            token_overlap[s, p] = float((labels == inputs.labels).double().mean())
            other = inputs.errors_within(labels, drawn.moved(overlap).sort().values, columns)
            pairs = {"restricted": (own, other), "full": (own_full, rotated.errors(labels))}
            for kind, (first, second) in pairs.items():
                pair = exact_pair((inputs.activations, first, None), (repeated, second, None))
                for name in _FACTORS:
                    found[kind][name][s, p] = pair[name]
    measured = [representation_metrics(inputs.activations, repeated, components) for _ in overlaps]
    representations = {name: np.array([row[name] for row in measured]) for name in measured[0]}
    return Dial(found, representations, token_overlap)


def summarised(dials: Mapping[str, Dial], overlaps: Sequence[float]) -> dict[str, Any]:
    """Returns the means over texts and seeds, with 95 % intervals over seeds.

    An interval is Student's for the mean of the seeds' means over texts: the texts are fixed, the
    relabellings drawn.

    Args:
        dials: The dial of each text.
        overlaps: Its positions.

    Returns:
        For each softmax the curve of every factor, the interval of ``joint``, and the share of the steps of
        all single curves (one text, one seed) along which ``joint`` rises; for the representation metrics and
        S_a, their extremes.
    """
    from scipy import stats

    summary: dict[str, Any] = {"overlaps": list(overlaps)}
    for kind in SOFTMAXES:
        curves = {name: np.stack([d.alignments[kind][name] for d in dials.values()]) for name in _FACTORS}
        joint = curves["joint"]  # (T, S, P)
        by_seed = joint.mean(axis=0)
        reach = stats.t.ppf(0.975, len(by_seed) - 1) * by_seed.std(axis=0, ddof=1) / len(by_seed) ** 0.5
        mean = by_seed.mean(axis=0)
        summary[kind] = {name: curve.mean(axis=(0, 1)).tolist() for name, curve in curves.items()} | {
            "joint_interval": np.stack([mean - reach, mean + reach], axis=1).tolist(),
            "joint_by_domain": {name: row.tolist() for name, row in zip(dials, joint.mean(1), strict=True)},
            "rising": float((np.diff(joint, axis=2) > 0).mean()),
            "activation_min": float(curves["activation"].min()),
            "activation_max": float(curves["activation"].max()),
        }
    values = np.stack([v for d in dials.values() for v in d.representations.values()])
    summary["representation_min"], summary["representation_max"] = float(values.min()), float(values.max())
    summary["token_overlap"] = np.stack([d.token_overlap for d in dials.values()]).mean(axis=(0, 1)).tolist()
    return summary
