"""Token windows cut from a stream of encoded pieces.

Pieces are encoded without special tokens, each ended by a line feed, and follow each other. A tokenizer that
puts a token (BOS) in front of a text has it once in every window, as the first column; otherwise that column
is the text's own token before the predicted ones. Either way it is context and not predicted.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Any

import torch

BATCH_PIECES = 8


def leading_token(tokenizer: Any) -> int | None:
    """Returns the BOS token's id if the tokenizer puts it in front of a text by itself, else None."""
    bos = tokenizer.bos_token_id
    return bos if bos is not None and tokenizer("text")["input_ids"][0] == bos else None


def tokens_per_window(tokenizer: Any, window_tokens: int) -> int:
    """Returns how many tokens of text a window of ``window_tokens`` predicted tokens takes."""
    return window_tokens + (leading_token(tokenizer) is None)


def encode(pieces: Iterable[str], tokenizer: Any, enough: int) -> tuple[list[int], list[str]]:
    """Encodes pieces until there are enough tokens, or no more pieces.

    Args:
        pieces: The pieces of text; read a few at a time.
        tokenizer: A transformers tokenizer.
        enough: Number of tokens to stop at.

    Returns:
        The token ids, and the pieces that they are of.
    """
    ids: list[int] = []
    used: list[str] = []
    rest = iter(pieces)
    while len(ids) < enough and (batch := list(islice(rest, BATCH_PIECES))):
        for piece, encoded in zip(batch, _ids(tokenizer, batch), strict=True):
            if len(ids) < enough:
                ids += encoded
                used.append(piece)
    return ids, used


def cut_windows(ids: list[int], tokenizer: Any, count: int, window_tokens: int) -> torch.Tensor:
    """Returns the first windows of a token stream, none sharing a token of text with another.

    Args:
        ids: At least ``count * tokens_per_window(tokenizer, window_tokens)`` ids.
        tokenizer: The tokenizer that made them.
        count: Number of windows.
        window_tokens: Predicted tokens of a window, W.

    Returns:
        The windows, (count, W + 1) int64.
    """
    width = tokens_per_window(tokenizer, window_tokens)
    windows = torch.tensor(ids[: count * width], dtype=torch.int64).reshape(count, width)
    bos = leading_token(tokenizer)
    return windows if bos is None else torch.nn.functional.pad(windows, (1, 0), value=bos)


def _ids(tokenizer: Any, pieces: list[str]) -> list[list[int]]:
    return tokenizer([f"{piece}\n" for piece in pieces], add_special_tokens=False)["input_ids"]
