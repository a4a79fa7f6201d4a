"""Text of a data set of the Hugging Face hub."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from omegaconf import MISSING

from experiments.domains.base import Source
from experiments.errors import UserError
from experiments.hub import require
from experiments.options import option, register


@register("domain", "hub_dataset")
@dataclass
class HubDataset(Source):
    """One text field of a split at a pinned revision; scripts in the repository are never run.

    With ``split_by`` one entry is many domains: one for each value of that field, named after it.
    """

    repo: str = option(MISSING, "Owner and name on the hub.")
    revision: str = option(MISSING, "Commit of the repository.")
    config: str | None = option(None, "Configuration of the data set; null if it has one only.")
    split: str = option("train", "Split to read.")
    field: str = option("text", "Field that holds the text.")
    split_by: str | None = option(
        None, "Field whose values are domains of their own; null for a single domain."
    )
    value: str | None = option(None, "Read only the rows whose split_by field is this; null for all.")

    def check(self, key: str) -> None:
        """Checks that a value has a field to be looked for in.

        Raises:
            UserError: If it has none.
        """
        if self.value is not None and self.split_by is None:
            raise UserError(f"{key}.value={self.value}: needs split_by, the field that holds it")

    def require(self, key: str) -> None:
        """Asks whether the data set can be had, and reads nothing.

        Args:
            key: Dotted key of the entry, for errors.

        Raises:
            UserError: It is out of reach; says what to do.
        """
        require(
            self.repo,
            self.revision,
            "dataset",
            f"{key}.repo",
            "export it to a .jsonl file elsewhere and use kind local_text",
        )

    def describe(self) -> str:
        """Returns the repository, the revision and the part of it."""
        part = "" if self.value is None else f", {self.split_by} {self.value}"
        return f"{self.repo}@{self.revision[:7]}, {self.config or 'default'}/{self.split}{part}"

    def documents(self, key: str) -> Iterator[str]:
        """Yields the texts in the data set's order, streamed.

        Raises:
            UserError: The data set is out of reach or lacks what the fields name.
        """
        for row in self._rows(key):
            if self.split_by is None or self.value in (None, str(row[self.split_by])):
                yield row[self.field]

    def expand(self, name: str, key: str, characters: int) -> dict[str, Source]:
        """Returns one source for each value of ``split_by``, read in a single pass.

        Args:
            name: Name of the entry.
            key: Dotted key of the entry, for errors.
            characters: Text beyond so many characters of a value is left.
        """
        if self.split_by is None or self.value is not None:
            return {name: self}
        texts: dict[str, list[str]] = defaultdict(list)
        lengths: dict[str, int] = defaultdict(int)
        for row in self._rows(key):
            value = str(row[self.split_by])
            if lengths[value] < characters:
                texts[value].append(row[self.field])
                lengths[value] += len(row[self.field])
        return {
            value: _Part(**vars(replace(self, value=value)), texts=texts[value]) for value in sorted(texts)
        }

    def _rows(self, key: str) -> Iterator[dict[str, Any]]:
        self.require(key)
        from datasets import load_dataset

        try:
            rows = load_dataset(
                self.repo, self.config, split=self.split, revision=self.revision, streaming=True
            )
        except (OSError, ValueError, RuntimeError) as error:
            # RuntimeError: a repository that needs a loading script, which is not run.
            reason = str(error).strip().splitlines()[0]
            raise UserError(f"{key}.repo={self.repo}: cannot be loaded: {reason}") from error
        for row in rows:
            for setting, field in (("field", self.field), ("split_by", self.split_by)):
                if field is not None and field not in row:
                    raise UserError(f"{key}.{setting}={field}: {self.repo} has {', '.join(row)}")
            if not isinstance(row[self.field], str):
                raise UserError(f"{key}.field={self.field}: must hold text, not {row[self.field]!r:.40}")
            yield row


@dataclass
class _Part(HubDataset):
    """The rows of one value, read already."""

    texts: list[str] = option([], "The texts.")

    def documents(self, key: str) -> Iterator[str]:
        yield from self.texts
