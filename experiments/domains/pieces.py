"""Documents cut into pieces of text and put in an order of their own.

Train and held-out text are made of different pieces. A piece is part of one document, so a corpus of one long
document (a JSON file is a single line) divides as well as one of many short ones.
"""

import hashlib
from collections.abc import Iterable, Iterator


def cut(document: str, characters: int) -> Iterator[str]:
    """Yields consecutive pieces of at most that many characters, ended at a line feed, else a space."""
    start = 0
    while start < len(document):
        end = min(start + characters, len(document))
        if end < len(document):
            # A break in the first half would leave a stub, so a worse one in the second half is preferred.
            middle = start + characters // 2
            for mark in ("\n", " "):
                found = document.rfind(mark, middle, end)
                if found != -1:
                    end = found + 1
                    break
        yield document[start:end]
        start = end


def normalised(text: str) -> str:
    """Returns the text with every run of white space as one space, and none around it.

    >>> normalised("  a   b ")
    'a b'
    """
    return " ".join(text.split())


def shuffled_pieces(documents: Iterable[str], characters: int, seed: int) -> list[str]:
    """Returns the distinct pieces of the documents, ordered by a hash of seed and text.

    The order is the same on every machine and release. It depends on a piece's own text only, so a text that
    two domains share comes at a like place in both, and mostly on the same side of train and held-out.

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
