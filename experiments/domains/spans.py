"""Spans: the units of text by which training text is told from held-out text.

A span is a line, and inside a long line a sentence, with its white space normalised. Short spans ("}", "Yes")
say nothing about where a text comes from and are not counted.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

LONG_LINE = 200
_SENTENCE_END = re.compile(r"(?<=[.!?;}\]。！？।])")


def normalised(text: str) -> str:
    """Returns the text with every run of white space as one space, and none around it.

    >>> normalised("  a   b ")
    'a b'
    """
    return " ".join(text.split())


def segments(text: str) -> list[str]:
    """Returns the lines of a text, long ones split at sentence ends; joined they are the text again."""
    found: list[str] = []
    for line in text.splitlines(keepends=True):
        found += [line] if len(line) <= LONG_LINE else [part for part in _SENTENCE_END.split(line) if part]
    return found


def spans(text: str, characters: int) -> list[str]:
    """Returns the normalised segments that have at least that many characters."""
    return [span for span in map(normalised, segments(text)) if len(span) >= characters]


@dataclass
class HeldOutText:
    """Pieces of held-out text less the spans that training text holds; iterating counts what is met.

    Attributes:
        pieces: The pieces.
        known: Spans of all training text.
        characters: Shortest span that counts.
        met: Spans met so far, those dropped too.
        dropped: Number of spans dropped so far.
    """

    pieces: list[str]
    known: set[str]
    characters: int
    met: list[str] = field(default_factory=list)
    dropped: int = 0

    def __iter__(self) -> Iterator[str]:
        for piece in self.pieces:
            kept = "".join(segment for segment in segments(piece) if self._keep(normalised(segment)))
            if kept.strip():
                yield kept.rstrip()

    def _keep(self, span: str) -> bool:
        if len(span) < self.characters:
            return True
        self.met.append(span)
        self.dropped += span in self.known
        return span not in self.known

    def share(self, known: set[str]) -> float:
        """Returns the share of the spans met that are among the known ones; 0 if none was met."""
        return sum(span in known for span in self.met) / len(self.met) if self.met else 0.0
