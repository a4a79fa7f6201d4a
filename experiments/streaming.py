"""One pass of token windows through a model: head terms, a batch of windows at a time."""

import hashlib
from collections.abc import Iterator

import torch

from experiments.config import EstimatorConfig
from experiments.errors import UserError
from experiments.matmul import fast_float32
from experiments.models.base import LoadedModel
from fishersketch.errors import FisherSketchError
from fishersketch.head import HeadTerms, iter_head_terms

BATCH_WINDOWS = 8


def stream_terms(
    loaded: LoadedModel, windows: torch.Tensor, first_window: int, cfg: EstimatorConfig, domain: str
) -> Iterator[HeadTerms]:
    """Yields the head terms of windows, in order.

    A window is one sequence, numbered from `first_window`; its first column is context and not predicted.

    Args:
        loaded: A causal language model.
        windows: (N, W + 1) int64 tokens.
        first_window: Number of the first window in its domain, so that halves do not depend on how a
            domain is cut into calls.
        cfg: Gives the label mode and the seed of drawn labels.
        domain: Name of the domain, for errors.

    Yields:
        Terms in blocks of bounded size, on the model's device. With sample_unit=sequence a block holds whole
        windows.

    Raises:
        UserError: The model gives values that are not finite, or its head cannot be used; names the domain.
    """
    for start in range(0, len(windows), BATCH_WINDOWS):
        batch = windows[start : start + BATCH_WINDOWS].to(loaded.device)
        group = torch.arange(first_window + start, first_window + start + len(batch))
        inputs = {"input_ids": batch, "attention_mask": torch.ones_like(batch)}
        whole = (
            {"chunk_bytes": batch.numel() * loaded.vocabulary_size * 8}
            if cfg.sample_unit == "sequence"
            else {}
        )
        try:
            with fast_float32(loaded.device):
                yield from iter_head_terms(
                    loaded.model,
                    inputs,
                    batch,
                    cfg.label_mode,
                    _label_draws(cfg, batch),
                    group=group,
                    **whole,
                )
        except FisherSketchError as error:
            raise UserError(
                f"domain {domain}, windows {start} to {start + len(batch) - 1}: {error}"
            ) from error


def _label_draws(cfg: EstimatorConfig, batch: torch.Tensor) -> torch.Generator | None:
    """Returns the generator of a batch's labels: a function of the label seed and its tokens alone."""
    if cfg.label_mode == "data":
        return None
    content = batch.cpu().numpy().astype("<i8").tobytes() + str(cfg.label_seed).encode()
    return torch.Generator().manual_seed(int.from_bytes(hashlib.sha256(content).digest()[:7], "little"))
