"""Protein and genomic sequences in FASTA and GenBank files of a pinned package: letters, no annotation."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from omegaconf import MISSING

from experiments.assets import fetch
from experiments.domains.base import Source
from experiments.domains.package_text import readable
from experiments.errors import UserError
from experiments.options import option, register
from experiments.packages import PACKAGES

LINE = 60  # letters, as FASTA files have them
_GENBANK = (".gb", ".gbk")
_TRANSLATION = re.compile(r'/translation="([^"]*)"')
_ORIGIN = re.compile(r"^ORIGIN.*?\n(.*?)^//", re.MULTILINE | re.DOTALL)


@register("domain", "package_sequences")
@dataclass
class PackageSequences(Source):
    """The sequences of some files, in upper case and lines of 60 letters; a sequence is a document."""

    package: str = option(MISSING, "Pinned package that holds the files.", choices=PACKAGES)
    files: list[str] = option([], "Paths of the .fa, .faa, .fna, .fasta, .gb or .gbk files in the package.")
    translations: bool = option(False, "Of GenBank files, the proteins that they code for.")

    def check(self, key: str) -> None:
        """Checks that translations are asked of GenBank files only.

        Raises:
            UserError: For another file.
        """
        for file in self.files:
            if self.translations and not file.endswith(_GENBANK):
                raise UserError(f"{key}.translations=true: {file} is no GenBank file (.gb, .gbk)")

    def describe(self) -> str:
        """Returns the package, what is read and the files."""
        what = "translations of" if self.translations else "sequences of"
        return f"{PACKAGES[self.package].label}, {what} {', '.join(self.files)}"

    def documents(self, key: str) -> Iterator[str]:
        """Yields the sequences.

        Raises:
            UserError: The package cannot be fetched, or lacks a file or its sequences.
        """
        root = fetch(PACKAGES[self.package])
        for file in self.files:
            path = root / file
            if not path.is_file():
                label = PACKAGES[self.package].label
                raise UserError(f"{key}.files: nothing that is used of {label} is named {file!r}")
            found = [letters for letters in self._sequences(path) if letters]
            if not found:
                raise UserError(f"{key}.files: {file} holds no sequence of the kind that is asked for")
            for letters in found:
                yield "\n".join(letters[start : start + LINE] for start in range(0, len(letters), LINE))

    def _sequences(self, path: Path) -> Iterator[str]:
        text = readable(path.read_bytes())
        if path.suffix not in _GENBANK:
            # A record is a line that starts with ">" and the lines of its sequence.
            for record in re.split(r"^>", text, flags=re.MULTILINE)[1:]:
                yield _letters(record.partition("\n")[2])
        else:
            for found in (_TRANSLATION if self.translations else _ORIGIN).findall(text):
                yield _letters(found)


def _letters(text: str) -> str:
    return re.sub(r"[^A-Za-z]", "", text).upper()
