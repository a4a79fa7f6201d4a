"""As many token windows of a text as are asked for, and no more of it read than that takes."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from experiments.domains.pieces import cut
from experiments.domains.spans import spans
from experiments.domains.windows import cut_windows, encode, tokens_per_window
from experiments.errors import UserError

BLOCKS = 8  # parts that are left out in turn for the sampling error; each has a window at least
_PIECE_CHARACTERS = 2048
_SPAN_CHARACTERS = 20


@dataclass(frozen=True)
class Sample:
    """The start of a text.

    Attributes:
        windows: (N, W + 1) int64, N at least `BLOCKS`; the first column is context and not predicted.
        spans: Lines or sentences of the text read, by which another text is found to hold them too.
    """

    windows: torch.Tensor
    spans: frozenset[str]

    @property
    def num_tokens(self) -> int:
        """Predicted tokens."""
        return self.windows.shape[0] * (self.windows.shape[1] - 1)

    def share_in(self, other: "Sample") -> float:
        """Returns the share of this text's spans that the other one holds as well."""
        return len(self.spans & other.spans) / len(self.spans) if self.spans else 0.0


class TooLittleError(UserError):
    """A text is too short; the message has no name of it.

    Args:
        tokens: Tokens it has.
        needed: Tokens it needs.
        window_tokens: Predicted tokens of a window.
    """

    def __init__(self, tokens: int, needed: int, window_tokens: int) -> None:
        self.tokens, self.needed = tokens, needed
        super().__init__(
            f"has {tokens:,} tokens, but needs {needed:,} ({BLOCKS} windows of {window_tokens}); give it "
            "more text, or lower settings.window_tokens"
        )


def read_sample(documents: Iterable[str], tokenizer: Any, tokens: int, window_tokens: int) -> Sample:
    """Reads the start of a text.

    Args:
        documents: The text; only its start is asked for.
        tokenizer: A transformers tokenizer.
        tokens: Predicted tokens to read, at most.
        window_tokens: Predicted tokens of a window, W.

    Returns:
        The windows of what was read.

    Raises:
        TooLittleError: There is less text than `BLOCKS` windows.
    """
    width = tokens_per_window(tokenizer, window_tokens)
    pieces = (
        piece.rstrip()
        for document in documents
        for piece in cut(document, _PIECE_CHARACTERS)
        if piece.strip()
    )
    ids, used = encode(pieces, tokenizer, tokens // window_tokens * width)
    count = min(len(ids) // width, tokens // window_tokens)
    if count < BLOCKS:
        raise TooLittleError(len(ids), BLOCKS * width, window_tokens)
    found = frozenset(span for piece in used for span in spans(piece, _SPAN_CHARACTERS))
    return Sample(cut_windows(ids, tokenizer, count, window_tokens), found)
