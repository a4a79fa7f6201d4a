"""A set of domains: chosen entries, split into training and held-out windows without leakage between them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.domains.base import Domain, DomainSet, Source
from experiments.domains.pieces import DistinctDocuments, first_characters, shuffled_pieces
from experiments.domains.spans import HeldOutText, spans
from experiments.domains.windows import cut_windows, encode, tokens_per_window
from experiments.errors import UserError
from experiments.options import build_kind, option, register


@register("domains", "set")
@dataclass
class DomainSetConfig:
    """Domains by name, and how much of each is trained on, sketched and held out.

    Each domain's text is cut into pieces, which are ordered by a hash. The first pieces are the training
    text; of the others, spans that are in the training text of any domain of the set are dropped, and what
    stays is the held-out text.
    """

    name: str = option("set", "Name in tables and figures.")
    seed: int = option(0, "Orders the pieces of text.", min=0)
    window_tokens: int = option(64, "Predicted tokens of a window.", min=1)
    train_windows: int = option(16, "Fine-tuning windows a domain.", min=1)
    sketch_windows: int = option(16, "Windows a domain that signatures see, of the fine-tuning ones.", min=1)
    held_out_windows: int = option(6, "Windows a domain that are never sketched or trained on.", min=1)
    piece_characters: int = option(512, "Longest piece of text that goes to one side as a whole.", min=16)
    span_characters: int = option(20, "Shortest span that is looked for in other domains.", min=1)
    read_characters: int = option(
        20_000_000, "Text beyond so many characters of a domain is not read.", min=1
    )
    distinct_documents: bool = option(
        False, "Whether a document that several domains hold is left to the first of them."
    )
    limit: int | None = option(None, "Use the first so many domains; null for all.", min=1)
    groups: list[str] | None = option(None, "Use the entries of these groups; null for all.")
    include: list[str] | None = option(None, "Use the entries of these names; null for all.")
    siblings: dict[str, list[str]] = option({}, "Families of domains that share text by descent.")
    entries: dict[str, Any] = option(
        {}, "Domain by name: its kind, group, licence and the kind's own fields."
    )

    def check(self, key: str) -> None:
        """Checks what concerns several fields, and every entry.

        Raises:
            UserError: For the first that is wrong.
        """
        if self.sketch_windows > self.train_windows:
            raise UserError(
                f"{key}.sketch_windows={self.sketch_windows}: must be at most "
                f"{key}.train_windows={self.train_windows}"
            )
        for name in self.entries:
            if not name.strip():
                raise UserError(f"{key}.entries: has a domain without a name")
        known = {
            "include": set(self.entries),
            "groups": {source.group for source in self._sources(key).values()},
        }
        for name, members in self.siblings.items():
            _refuse_unknown(f"{key}.siblings.{name}", members, known["include"])
        _refuse_unknown(f"{key}.include", self.include or [], known["include"])
        _refuse_unknown(f"{key}.groups", self.groups or [], known["groups"])
        if not self.chosen(key):
            raise UserError(
                f"{key}.entries: no domain is left; set entries, or widen include, groups or limit"
            )

    def chosen(self, key: str = "domains") -> dict[str, Source]:
        """Returns the entries that are left to use, by name."""
        sources = {
            name: source
            for name, source in self._sources(key).items()
            if (self.include is None or name in self.include)
            and (self.groups is None or source.group in self.groups)
        }
        return dict(list(sources.items())[: self.limit])

    def _sources(self, key: str) -> dict[str, Source]:
        return {
            name: build_kind("domain", entry, f"{key}.entries.{name}") for name, entry in self.entries.items()
        }

    def require(self, key: str) -> None:
        """Asks whether the chosen domains can be had, as far as that can be told without reading them.

        Args:
            key: Dotted key of this config, for errors.

        Raises:
            UserError: One is out of reach; says what to do.
        """
        for name, source in self.chosen(key).items():
            if hasattr(source, "require"):
                source.require(f"{key}.entries.{name}")

    def build(self, tokenizer: Any, key: str = "domains") -> DomainSet:
        """Reads, splits and encodes the chosen domains.

        Args:
            tokenizer: A transformers tokenizer.
            key: Dotted key of this config, for errors.

        Returns:
            The domains, with the overlap of their texts before any span was dropped.

        Raises:
            UserError: There is no tokenizer, a source cannot be read, a domain has too few tokens, or two
                domains are the same.
        """
        if tokenizer is None:
            raise UserError(
                f"{key}={self.name}: are texts, and a model of images reads none; choose a language model"
            )
        self.check(key)
        width = tokens_per_window(tokenizer, self.window_tokens)
        sources = self._expanded(key)
        train_ids, train_spans, rest = {}, {}, {}
        distinct = DistinctDocuments()
        for name, source in sources.items():
            documents = source.documents(f"{key}.entries.{name}")
            if self.distinct_documents:
                documents = distinct.of(name, documents)
            documents = first_characters(documents, self.read_characters)
            pieces = shuffled_pieces(documents, self.piece_characters, self.seed)
            train_ids[name], used = encode(pieces, tokenizer, self.train_windows * width)
            rest[name] = pieces[len(used) :]
            train_spans[name] = {span for piece in used for span in spans(piece, self.span_characters)}
        everywhere = set().union(*train_spans.values())

        domains, seen = [], {}
        for name, source in sources.items():
            held_out = HeldOutText(rest[name], everywhere, self.span_characters)
            ids, _ = encode(held_out, tokenizer, self.held_out_windows * width)
            seen[name] = held_out
            self._refuse_short(
                f"{key}.entries.{name}", len(train_ids[name]), len(ids), width, held_out.dropped
            )
            train = cut_windows(train_ids[name], tokenizer, self.train_windows, self.window_tokens)
            domains.append(
                Domain(
                    name=name,
                    group=source.group,
                    source=source.describe(),
                    licence=source.licence,
                    train=train,
                    sketch=train[: self.sketch_windows],
                    held_out=cut_windows(ids, tokenizer, self.held_out_windows, self.window_tokens),
                )
            )
        _refuse_twins(key, domains)
        families = {
            family: [name for name in members if name in sources] for family, members in self.siblings.items()
        }
        return DomainSet(
            name=self.name,
            domains=domains,
            overlap=np.array([[seen[j].share(train_spans[i]) for j in sources] for i in sources]),
            dropped={name: held_out.dropped for name, held_out in seen.items()},
            siblings={family: members for family, members in families.items() if len(members) > 1},
            left_out={name: distinct.left_out.get(name, 0) for name in sources},
        )

    def _expanded(self, key: str) -> dict[str, Source]:
        sources: dict[str, Source] = {}
        for name, entry in self.chosen(key).items():
            expanded = entry.expand(name, f"{key}.entries.{name}", self.read_characters)
            for twice in sources.keys() & expanded.keys():
                raise UserError(
                    f"{key}.entries.{name}: has a domain {twice!r}, as another entry does; rename one"
                )
            sources |= expanded
        return dict(list(sources.items())[: self.limit])

    def _refuse_short(self, key: str, train: int, held_out: int, width: int, dropped: int) -> None:
        need = (self.train_windows * width, self.held_out_windows * width)
        if train < need[0] or held_out < need[1]:
            raise UserError(
                f"{key}: has {min(train, need[0]) + held_out} tokens, but needs {sum(need)} ({need[0]} to "
                f"train on, {need[1]} held out); {dropped} spans of it were dropped as training text holds "
                f"them; give it more text, leave it out, or lower domains.train_windows, "
                f"domains.held_out_windows or domains.window_tokens"
            )


def _refuse_unknown(key: str, names: list[str], known: set[str]) -> None:
    for name in names:
        if name not in known:
            raise UserError(f"{key}: there is no {name!r}; known: {', '.join(sorted(known))}")


def _refuse_twins(key: str, domains: list[Domain]) -> None:
    seen: dict[str, str] = {}
    for domain in domains:
        twin = seen.setdefault(domain.digest["train"], domain.name)
        if twin != domain.name:
            raise UserError(
                f"{key}.entries.{domain.name}: holds the same text as {twin}; leave one of them out"
            )
