"""Scores of every estimator between the verbalizers of one task."""

from collections.abc import Mapping

import numpy as np
import torch

from experiments.relabelling.shared_inputs import SharedInputs
from experiments.relabelling.witness import representation_metrics
from fishersketch import exact_align
from fishersketch.baselines import UndefinedSimilarityError, exact_mean_gradient_cosines, leep, logme

ERRORS = ("vocabulary", "verbalizers", "own")


def alignment_scores(errors: Mapping[str, torch.Tensor], activations: torch.Tensor) -> dict[str, np.ndarray]:
    """Aligns the verbalizers of a task exactly.

    All verbalizers have the same inputs, so self terms are plain ones: S_a is then the same number for every
    pair.

    Args:
        errors: Errors (N, C) of each of V verbalizers.
        activations: Activations (N, d) of the prompts.

    Returns:
        Scores (V, V), [source, target]: ``joint``, ``activation``, ``error``, ``coupling``, ``unit_joint``
        (a and e of unit length) and ``mean_gradient``, the signed first moment.
    """
    table = exact_align([(activations, e, None) for e in errors.values()], "plain")
    units = [
        (torch.nn.functional.normalize(activations), torch.nn.functional.normalize(e), None)
        for e in errors.values()
    ]
    return {
        "joint": table.joint.numpy(),
        "activation": table.activation.numpy(),
        "error": table.error.numpy(),
        "coupling": table.coupling.numpy(),
        "unit_joint": exact_align(units, "plain").joint.numpy(),
        "mean_gradient": exact_mean_gradient_cosines([(activations, e) for e in errors.values()]).numpy(),
    }


def label_errors(
    inputs: SharedInputs, classes: torch.Tensor, tokens: Mapping[str, torch.Tensor], kind: str
) -> dict[str, torch.Tensor]:
    """Returns each verbalizer's errors (N, C), in coordinates that keep all inner products.

    Args:
        inputs: The head's inputs and raw outputs at the prompts' ends, float64.
        classes: Class of each prompt (N,).
        tokens: Token ids (2,) of each verbalizer.
        kind: Softmax over the whole ``vocabulary``, over the tokens of all ``verbalizers``, or over a
            verbalizer's ``own`` two.
    """
    everything = torch.cat(list(tokens.values())).unique()
    if kind == "vocabulary":
        rotated = inputs.rotated(everything)
        return {name: rotated.errors(pair[classes]) for name, pair in tokens.items()}
    return {
        name: inputs.errors_within(
            pair[classes], everything if kind == "verbalizers" else pair.sort().values, everything
        )
        for name, pair in tokens.items()
    }


def label_free_scores(
    inputs: SharedInputs,
    repeated: torch.Tensor,
    classes: torch.Tensor,
    tokens: Mapping[str, torch.Tensor],
    components: int,
) -> dict[str, np.ndarray]:
    """Scores by representations, and by the classes with no regard to the words that say them.

    Args:
        inputs: The head's inputs and raw outputs at the prompts' ends, float64.
        repeated: Activations (N, d) of another pass over the same prompts, the target's.
        classes: Class of each prompt (N,).
        tokens: Token ids (2,) of each of V verbalizers.
        components: At most so many singular directions in SVCCA.

    Returns:
        Scores (V, V), [source, target]: CKA, RSA and SVCCA; ``logme`` of the base model's features, the same
        for every source, NaN where so few prompts leave it unbounded; ``leep`` with the source's softmax
        over its own two tokens.
    """
    count = len(tokens)
    scores = {
        name: np.full((count, count), value)
        for name, value in representation_metrics(inputs.activations, repeated, components).items()
    }
    try:
        evidence = logme(inputs.activations, classes)
    except UndefinedSimilarityError:
        evidence = np.nan
    scores["logme"] = np.full((count, count), evidence)
    by_source = [
        leep(torch.softmax(inputs.transform.logits(inputs.raw[:, pair]), dim=1), classes)
        for pair in tokens.values()
    ]
    scores["leep"] = np.tile(np.array(by_source)[:, None], (1, count))
    return scores
