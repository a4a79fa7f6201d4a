"""Molecules of a table or structure file of a pinned package, as canonical SMILES, all or those of a kind.

One canonical form for all corpora: what they differ in is chemistry rather than the way that a data base
writes SMILES, and a molecule that two of them hold is the same text in both.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from experiments.domains.base import Source
from experiments.domains.package_csv import PackageCsv
from experiments.domains.package_sdf import PackageSdf
from experiments.errors import UserError
from experiments.options import option, register


@dataclass
class MoleculeFilter(Source):
    """Which molecules of a file are used."""

    substructure: str | None = option(None, "SMARTS pattern that a molecule must match; null for all.")
    min_atoms: int | None = option(None, "Fewest heavy atoms; null for any number.", min=1)
    max_atoms: int | None = option(None, "Most heavy atoms; null for any number.", min=1)

    def suffix(self) -> str:
        """Returns the filter in words, to be put behind where the molecules come from."""
        parts = [f"matching {self.substructure}"] if self.substructure is not None else []
        parts += [f"at least {self.min_atoms} heavy atoms"] if self.min_atoms is not None else []
        parts += [f"at most {self.max_atoms} heavy atoms"] if self.max_atoms is not None else []
        return "".join(f", {part}" for part in parts)

    def canonical(self, strings: Iterable[str], key: str) -> Iterator[str]:
        """Yields the canonical SMILES of the molecules that pass; what is no valid molecule is left out.

        Args:
            strings: SMILES strings.
            key: Dotted key of the entry, for errors.

        Yields:
            RDKit's canonical SMILES, with its stereochemistry.

        Raises:
            UserError: RDKit is not installed, or the pattern cannot be read.
        """
        try:
            from rdkit import Chem, rdBase
        except ImportError:
            raise UserError(f"{key}: molecules need rdkit; pip install 'fishersketch[chem]'") from None
        with rdBase.BlockLogs():
            pattern = None if self.substructure is None else Chem.MolFromSmarts(self.substructure)
        if self.substructure is not None and pattern is None:
            raise UserError(f"{key}.substructure={self.substructure}: must be a SMARTS pattern")
        for string in strings:
            with rdBase.BlockLogs():
                molecule = Chem.MolFromSmiles(string)
            if (
                molecule is not None
                and (pattern is None or molecule.HasSubstructMatch(pattern))
                and (self.min_atoms is None or molecule.GetNumHeavyAtoms() >= self.min_atoms)
                and (self.max_atoms is None or molecule.GetNumHeavyAtoms() <= self.max_atoms)
            ):
                yield Chem.MolToSmiles(molecule)


@register("domain", "molecules_csv")
@dataclass
class MoleculesCsv(MoleculeFilter, PackageCsv):
    """Molecules in one column of a comma-separated table."""

    def describe(self) -> str:
        """Returns the package, the column, the file and the filter."""
        return PackageCsv.describe(self) + self.suffix()

    def documents(self, key: str) -> Iterator[str]:
        """Yields canonical SMILES.

        Raises:
            UserError: As `PackageCsv` and `MoleculeFilter.canonical`.
        """
        yield from self.canonical(PackageCsv.documents(self, key), key)


@register("domain", "molecules_sdf")
@dataclass
class MoleculesSdf(MoleculeFilter, PackageSdf):
    """Molecules in one property of a structure-data file."""

    def describe(self) -> str:
        """Returns the package, the property, the file and the filter."""
        return PackageSdf.describe(self) + self.suffix()

    def documents(self, key: str) -> Iterator[str]:
        """Yields canonical SMILES.

        Raises:
            UserError: As `PackageSdf` and `MoleculeFilter.canonical`.
        """
        yield from self.canonical(PackageSdf.documents(self, key), key)
