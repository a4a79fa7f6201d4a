"""One pass of token windows through a model: head terms, a batch of windows at a time."""

import hashlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager

import torch

from experiments.config import EstimatorConfig
from experiments.errors import NotFiniteDomain, UserError
from experiments.matmul import fast_float32
from experiments.models.base import LoadedModel
from fishersketch.errors import FisherSketchError, NotFiniteError
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
        NotFiniteDomain: The model gives values that are not finite; names the domain and the windows.
        UserError: The windows do not fit the model, or its head cannot be used; names the domain.
    """
    _refuse_misfits(loaded, windows, domain)
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
            kind = NotFiniteDomain if isinstance(error, NotFiniteError) else UserError
            # A part of a domain is numbered on from the part before it.
            last = first_window + start + len(batch) - 1
            raise kind(f"domain {domain}, windows {first_window + start} to {last}: {error}") from error


@contextmanager
def named(domain: str) -> Generator[None, None, None]:
    """Names the domain where sums over its head terms overflow.

    Args:
        domain: Name of the domain.

    Yields:
        Nothing.

    Raises:
        NotFiniteDomain: They do.
    """
    try:
        yield
    except NotFiniteError as error:
        raise NotFiniteDomain(f"domain {domain}: {error}") from error


def _refuse_misfits(loaded: LoadedModel, windows: torch.Tensor, domain: str) -> None:
    longest = loaded.context_length
    if longest is not None and windows.shape[1] > longest:
        raise UserError(
            f"domain {domain}: windows of {windows.shape[1]} tokens, with the first for context, are longer "
            f"than the context of {loaded.name}, {longest} tokens; lower domains.window_tokens"
        )
    if windows.numel() and int(windows.max()) >= loaded.vocabulary_size:
        raise UserError(
            f"domain {domain}: holds token {int(windows.max())} and {loaded.name} has "
            f"{loaded.vocabulary_size} outputs; its tokenizer is another model's"
        )


def _label_draws(cfg: EstimatorConfig, batch: torch.Tensor) -> torch.Generator | None:
    """Returns the generator of a batch's labels: a function of the label seed and its tokens alone."""
    if cfg.label_mode == "data":
        return None
    content = batch.cpu().numpy().astype("<i8").tobytes() + str(cfg.label_seed).encode()
    return torch.Generator().manual_seed(int.from_bytes(hashlib.sha256(content).digest()[:7], "little"))
