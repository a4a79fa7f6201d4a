"""One pass over a domain's windows that makes all that is not in the cache yet: sketches and summaries."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from experiments.artefacts import ArtefactCache
from fishersketch.head import HeadTerms

_SUFFIX = ".safetensors"


class Consumer(Protocol):
    """Takes the head terms of a pass and writes what they come to."""

    def update(self, terms: HeadTerms) -> None:
        """Takes one block of terms."""

    def save(self, path: Path) -> None:
        """Writes the result."""


@dataclass(frozen=True)
class Product:
    """What a pass over some windows of a domain makes.

    Attributes:
        kind: Kind of artefact.
        key: All that it depends on.
        windows: The windows that it sees: one part of the domain, or several that follow each other.
        consumer: Returns what makes it.
    """

    kind: str
    key: Mapping[str, Any]
    windows: slice
    consumer: Callable[[], Consumer]


def make_products(
    products: Sequence[Product],
    parts: Sequence[slice],
    stream: Callable[[slice], Iterator[HeadTerms]],
    cache: ArtefactCache,
) -> list[Path]:
    """Returns the artefacts of a domain; one pass over the windows makes those that are missing.

    The missing artefacts are claimed in the order given and written before the first one is let go, so that a
    second process waits for this pass and makes none of its own.

    Args:
        products: What is wanted, always in the same order.
        parts: How the windows are cut, in order; a product sees whole parts.
        stream: Gives the head terms of a part.
        cache: Where the artefacts are.

    Returns:
        The paths, one a product.
    """
    while True:
        paths = [cache.find(product.kind, product.key, _SUFFIX) for product in products]
        missing = [product for product, path in zip(products, paths, strict=True) if path is None]
        if not missing:
            return [path for path in paths if path is not None]

        def make(first: Path, missing: Sequence[Product] = tuple(missing)) -> None:
            consumers = _consumed(missing, parts, stream)
            for product, consumer in zip(missing[1:], consumers[1:], strict=True):
                cache.get(product.kind, product.key, consumer.save, _SUFFIX)
            consumers[0].save(first)

        cache.get(missing[0].kind, missing[0].key, make, _SUFFIX)


def _consumed(
    products: Sequence[Product], parts: Sequence[slice], stream: Callable[[slice], Iterator[HeadTerms]]
) -> list[Consumer]:
    consumers = [product.consumer() for product in products]
    for part in parts:
        takers = [
            consumer
            for product, consumer in zip(products, consumers, strict=True)
            if product.windows.start <= part.start and part.stop <= product.windows.stop
        ]
        for terms in stream(part) if takers else ():
            for consumer in takers:
                consumer.update(terms)
    return consumers
