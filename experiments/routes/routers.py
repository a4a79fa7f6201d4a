"""Scores of every source for every input, from the input's prompt alone."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from experiments.config import EstimatorConfig
from experiments.domains.base import Domain
from experiments.models.base import LoadedModel
from experiments.progress import progress
from experiments.signatures import provenance, sketch_spec
from experiments.streaming import stream_terms
from fishersketch import FisherSketch, TaskSignature, align_stream, align_to

# One input is one sequence, so that it has one half only; its own norm is the same for every source.
_SELF_TERMS = "plain"
_FACTORS = ("joint", "activation", "error")


def signature_scores(
    cfg: EstimatorConfig,
    loaded: LoadedModel,
    signatures: Sequence[TaskSignature],
    prompts: torch.Tensor,
    seed: int,
) -> dict[str, np.ndarray]:
    """Aligns the signature of every prompt with those of the sources.

    Args:
        cfg: How both are made; with label_mode=model the labels of a prompt are drawn from the model.
        loaded: A causal language model.
        signatures: Of the S sources.
        prompts: Token windows (N, P + 1).
        seed: Draws the projection.

    Returns:
        Scores (N, S) by router: the joint alignment, its two marginals, and the cosine of mean gradients
        where the spec has that stream. Labels make no difference to activations, which are scored once, with
        those of the data.
    """
    ending = "_model_labels" if cfg.label_mode == "model" else ""
    mine = [
        _signature(cfg, loaded, prompt, number, seed)
        for number, prompt in enumerate(progress(prompts, f"prompts ({cfg.label_mode} labels)"))
    ]
    columns = [align_to(signature, signatures, _SELF_TERMS) for signature in mine]
    scores = {
        name + ending: torch.stack([getattr(column, name) for column in columns]).numpy()
        for name in _FACTORS
        if name != "activation" or cfg.label_mode == "data"
    }
    if "mean_gradient" in cfg.extra_streams:
        whole = align_stream([*mine, *signatures], "mean_gradient", _SELF_TERMS)
        scores["mean_gradient" + ending] = whole[: len(mine), len(mine) :].numpy()
    return scores


def _signature(
    cfg: EstimatorConfig, loaded: LoadedModel, prompt: torch.Tensor, number: int, seed: int
) -> TaskSignature:
    sketch = FisherSketch(sketch_spec(cfg, loaded, seed), provenance(cfg, loaded))
    for terms in stream_terms(loaded, prompt[None], 0, cfg, f"prompt {number}"):
        sketch.update(terms.activations, terms.errors, terms.group)
    return sketch.signature(cfg.signature)


def token_overlap(prompts: torch.Tensor, sources: Sequence[Domain], vocabulary: int) -> np.ndarray:
    """Returns the cosines (N, S) of the token counts of prompts with those of the sources' windows."""
    counts = torch.stack([
        torch.bincount(tokens.flatten(), minlength=vocabulary).double()
        for tokens in [*prompts, *(source.sketch for source in sources)]
    ])
    unit = counts / counts.norm(dim=1, keepdim=True)
    return (unit[: len(prompts)] @ unit[len(prompts) :].T).numpy()


def picks(scores: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns for each router the source (N,) of highest score; an undefined score is never the highest."""
    return {
        name: np.argmax(np.where(np.isnan(values), -np.inf, values), axis=1)
        for name, values in scores.items()
    }
