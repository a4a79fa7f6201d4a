"""What a domain is, and what every kind of domain source gives."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from omegaconf import MISSING

from experiments.options import option
from experiments.tensors import digest


@dataclass(frozen=True)
class Domain:
    """One corpus as token windows.

    A window's first column is context only: the W other columns are predicted, each from all columns before
    it.

    Attributes:
        name: Name in tables and figures.
        group: Group that it belongs to.
        source: Where its text comes from.
        licence: Licence of the text.
        train: Fine-tuning windows, (n_train, W + 1) int64.
        sketch: Windows that a signature sees, the first of ``train``, (n_sketch, W + 1) int64.
        held_out: Windows that are never sketched or trained on, (n_held_out, W + 1) int64.
    """

    name: str
    group: str
    source: str
    licence: str
    train: torch.Tensor
    sketch: torch.Tensor
    held_out: torch.Tensor

    @property
    def digest(self) -> dict[str, str]:
        """Hashes of the windows, by the names ``train``, ``sketch`` and ``held_out``."""
        return {part: digest(getattr(self, part)) for part in ("train", "sketch", "held_out")}


@dataclass(frozen=True)
class DomainSet:
    """Domains that share a tokenizer and whose held-out text is in no domain's training text.

    Attributes:
        name: Name in tables and figures.
        domains: The T domains.
        overlap: ``overlap[i, j]``: share of the spans of target j's held-out text that source i's training
        text
            holds too, before they were dropped, (T, T) float64; 0 where j has no span.
        dropped: Number of held-out spans dropped for it, by domain.
        siblings: Names of domains that share text by descent, by family; two or more in each.
        left_out: Number of documents left to an earlier domain of the set that holds them too, by domain.
        not_finite: Reason of each domain that was taken out, as the model gives no finite values on it.
    """

    name: str
    domains: list[Domain]
    overlap: np.ndarray
    dropped: dict[str, int]
    siblings: dict[str, list[str]]
    left_out: dict[str, int]
    not_finite: dict[str, str] = field(default_factory=dict)

    def without(self, reasons: dict[str, str]) -> "DomainSet":
        """Returns the set without domains on which a model gives no finite values.

        Args:
            reasons: Why, by domain.
        """
        kept = [place for place, domain in enumerate(self.domains) if domain.name not in reasons]
        families = {
            family: [name for name in members if name not in reasons]
            for family, members in self.siblings.items()
        }
        return replace(
            self,
            domains=[self.domains[place] for place in kept],
            overlap=self.overlap[np.ix_(kept, kept)],
            siblings={family: members for family, members in families.items() if len(members) > 1},
            not_finite=self.not_finite | reasons,
        )


@dataclass
class Source(ABC):
    """Where the text of one domain comes from; each kind adds its own fields."""

    group: str = option(MISSING, "Group of the domain.")
    licence: str = option(MISSING, "Licence of the text.")

    @abstractmethod
    def describe(self) -> str:
        """Returns where the text comes from, in a few words."""

    def expand(self, name: str, key: str, characters: int) -> dict[str, "Source"]:
        """Returns the domains that the entry stands for, by name: itself, unless a kind holds many.

        Args:
            name: Name of the entry.
            key: Dotted key of the entry, for errors.
            characters: Text beyond so many characters of a domain will not be read.
        """
        return {name: self}

    @abstractmethod
    def documents(self, key: str) -> Iterator[str]:
        """Yields the domain's texts, always in the same order.

        Args:
            key: Dotted key of the entry, for errors.
        """
