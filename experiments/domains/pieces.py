"""Documents cut into pieces of text and put in an order of their own.

Training and held-out text are made of different pieces. A piece is part of one document, so a corpus of one
long document (a JSON file is a single line) divides as well as one of many short ones.
"""

import hashlib
from collections.abc import Iterable, Iterator

from experiments.domains.spans import normalised, segments


def cut(document: str, characters: int) -> Iterator[str]:
    """Yields consecutive pieces of a document, at most that many characters each.

    A piece ends where a span does, so that a span is never in two pieces, unless the span alone is too long.
    """
    piece = ""
    for segment in segments(document):
        if piece and len(piece) + len(segment) > characters:
            yield piece
            piece = ""
        while len(segment) > characters:
            # A space in the first half would leave a stub.
            space = segment.rfind(" ", characters // 2, characters)
            end = characters if space == -1 else space + 1
            yield segment[:end]
            segment = segment[end:]
        piece += segment
    if piece:
        yield piece


def first_characters(documents: Iterable[str], characters: int) -> Iterator[str]:
    """Yields documents until they have that many characters in all; the last one is cut there."""
    for document in documents:
        yield document[:characters]
        characters -= len(document)
        if characters <= 0:
            return


class DistinctDocuments:
    """Leaves each document to the first domain that yields it.

    Attributes:
        left_out: Number of documents left to an earlier domain so far, by domain.
    """

    def __init__(self) -> None:
        self.left_out: dict[str, int] = {}
        self._owner: dict[str, str] = {}

    def of(self, domain: str, documents: Iterable[str]) -> Iterator[str]:
        """Yields the documents of a domain that no other domain has yielded before.

        Args:
            domain: Name of the domain.
            documents: Its documents.
        """
        for document in documents:
            if self._owner.setdefault(document, domain) == domain:
                yield document
            else:
                self.left_out[domain] = self.left_out.get(domain, 0) + 1


def shuffled_pieces(documents: Iterable[str], characters: int, seed: int) -> list[str]:
    """Returns the distinct pieces of the documents, ordered by a hash of seed and text.

    The order is the same on every machine and release. It depends on a piece's own text only, so a text that
    two domains share comes at a like place in both, and mostly on the same side of training and held-out.

    Args:
        documents: The texts.
        characters: Longest piece.
        seed: Another one gives another order.
    """
    pieces: dict[bytes, str] = {}
    for document in documents:
        for piece in cut(document, characters):
            text = normalised(piece)
            if text:
                pieces.setdefault(hashlib.sha256(f"{seed}\n{text}".encode()).digest(), piece.rstrip())
    return [piece for _, piece in sorted(pieces.items())]
