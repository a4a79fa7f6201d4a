"""A signature library: a folder of signature files of one model, compared without model or data."""

import hashlib
import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from fishersketch.errors import FisherSketchError
from fishersketch.ranking import align_to, difference_of
from fishersketch.signature import TaskSignature

SUFFIX = ".safetensors"
_BATCH = 512  # signatures in memory at once, where not all are needed
_LONGEST_NAME = 200  # bytes: what file systems take, less the suffixes of temporary files


@dataclass(frozen=True)
class Neighbour:
    """A signature of the library as a source for the target that was asked about.

    Attributes:
        name: its name.
        joint, activation, error, coupling, stderr_sketch: as in `Alignment`.
        num_samples: samples it was made of.
    """

    name: str
    joint: float
    activation: float
    error: float
    coupling: float
    stderr_sketch: float
    num_samples: int


class SignatureLibrary:
    """Signatures by name, one file ``<name>.safetensors`` each, all of one spec and provenance.

    The files are the library: any folder of signatures is one, and nothing is kept beside them. They are
    checked whenever they are read, so the folder may come from anywhere.

    Args:
        folder: it is made when the first signature is added.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def names(self) -> list[str]:
        """Returns the names, sorted; no file is opened.

        Raises:
            FisherSketchError: there is no such folder.
        """
        if not self.folder.is_dir():
            raise FisherSketchError(f"{self.folder}: there is no such library; add a signature to make it")
        with os.scandir(self.folder) as entries:
            return sorted(
                entry.name.removesuffix(SUFFIX)
                for entry in entries
                if entry.name.endswith(SUFFIX) and not entry.name.startswith(".")
            )

    def load(self, name: str) -> TaskSignature:
        """Returns a signature.

        Raises:
            FisherSketchError: there is none of that name, or its file is damaged; names it.
        """
        path = self._path(name)
        if not path.is_file():
            raise FisherSketchError(f"{self.folder}: has no signature {name!r}; `library list` shows all")
        return TaskSignature.load(path)

    def items(self, names: Sequence[str] | None = None) -> Iterator[tuple[str, TaskSignature]]:
        """Yields names and signatures, one in memory at a time, all comparable with the first.

        Args:
            names: which, in what order; None for all.

        Raises:
            FisherSketchError: a file is damaged, or of another model, tokenizer, spec or label mode than the
                first; names it and what differs.
        """
        first: tuple[str, TaskSignature] | None = None
        for name in self.names() if names is None else names:
            signature = self.load(name)
            first = first or (name, signature)
            self._refuse_other(f"{self._path(name)}", signature, *first)
            yield name, signature

    def add(self, signatures: Iterable[tuple[str, TaskSignature]]) -> dict[str, str]:
        """Adds signatures; what the library holds already, under whatever name, is not added again.

        Args:
            signatures: names and signatures.

        Returns:
            For each name given, the name under which the library holds that signature.

        Raises:
            FisherSketchError: a name is taken by another signature or cannot be a file's name, or a signature
                cannot be compared with those in the library; names what differs. Those before it are added.
        """
        held: dict[str, str] | None = None
        first: tuple[str, TaskSignature] | None = None
        added = {}
        for name, signature in signatures:
            path = self._path(name)
            if held is None:
                self._make_folder()
                names = self.names()
                held = {_hash(self._path(other)): other for other in reversed(names)}
                first = (names[0], self.load(names[0])) if names else None
            first = first or (name, signature)
            self._refuse_other(f"{name}: cannot be added to {self.folder}", signature, *first)
            temporary = self.folder / f".{secrets.token_hex(8)}"
            try:
                signature.save(temporary)
                content = _hash(temporary)
                if content not in held:
                    # Unlike a rename, a link never replaces what another process added in between.
                    os.link(temporary, path)
                    held[content] = name
            except FileExistsError:
                raise FisherSketchError(
                    f"{name}: {self.folder} has another signature of that name; remove it, or add this one "
                    "under a --name of its own"
                ) from None
            except OSError as error:
                raise FisherSketchError(f"{path}: cannot be written ({error.strerror})") from error
            finally:
                with suppress(OSError):
                    temporary.unlink()
            added[name] = held[content]
        return added

    def remove(self, name: str) -> None:
        """Removes a signature.

        Raises:
            FisherSketchError: there is none of that name, or the folder cannot be changed.
        """
        try:
            self._path(name).unlink()
        except FileNotFoundError:
            raise FisherSketchError(
                f"{self.folder}: has no signature {name!r}; nothing was removed"
            ) from None
        except OSError as error:
            raise FisherSketchError(f"{self._path(name)}: cannot be removed ({error.strerror})") from error

    def nearest(self, target: TaskSignature, count: int = 5, self_terms: str = "split") -> list[Neighbour]:
        """Ranks the library as sources for a target; memory does not grow with the library.

        Args:
            target: a signature, in the library or not; an equal one in it is left out.
            count: number of sources to return.
            self_terms: "split" or "plain".

        Returns:
            The best ones by joint alignment, best first.

        Raises:
            FisherSketchError: a file is damaged or cannot be compared with the target; names it.
        """
        if count < 1:
            raise FisherSketchError(f"count={count}: must be at least 1")
        found: list[Neighbour] = []
        entries = iter(self.names())
        while names := list(islice(entries, _BATCH)):
            batch = []
            for name in names:
                signature = self.load(name)
                self._refuse_other(f"{self._path(name)}", signature, "the target", target)
                _refuse_without(signature, self_terms, f"{self._path(name)}")
                if signature != target:
                    batch.append((name, signature))
            if batch:
                table = align_to(target, [signature for _, signature in batch], self_terms)
                found += [_neighbour(*batch[i], table, i) for i in table.order[:count]]
            found = sorted(found, key=lambda one: (one.joint != one.joint, -one.joint, one.name))[:count]
        return found

    def _path(self, name: str) -> Path:
        reserved = name.startswith(".") or any(letter in '/\\:*?"<>|' for letter in name)
        if (
            not name.isprintable()
            or not name
            or reserved
            or len(name.encode(errors="replace")) > _LONGEST_NAME
        ):
            raise FisherSketchError(
                f"name {name!r}: must be the name of a file, without a dot in front, of at most "
                f"{_LONGEST_NAME} bytes"
            )
        return self.folder / f"{name}{SUFFIX}"

    def _make_folder(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FisherSketchError(f"{self.folder}: cannot be made ({error.strerror})") from error

    def _refuse_other(self, what: str, signature: TaskSignature, name: str, other: TaskSignature) -> None:
        difference = difference_of(signature, other)
        if difference:
            raise FisherSketchError(f"{what}: is not comparable with {name}: {difference}")


def read_files(paths: Sequence[str | Path]) -> Iterator[tuple[str, TaskSignature]]:
    """Yields the names and signatures of files, and of all signature files in folders, one at a time.

    Args:
        paths: signature files, or folders of them such as the ``signatures/`` of a run.

    Raises:
        FisherSketchError: a file is missing or damaged, or a folder holds none; names it.
    """
    for path in map(Path, paths):
        if not path.is_dir():
            yield path.name.removesuffix(SUFFIX), TaskSignature.load(path)
            continue
        library = SignatureLibrary(path)
        names = library.names()
        if not names:
            raise FisherSketchError(f"{path}: the folder holds no *{SUFFIX}")
        for name in names:
            yield name, library.load(name)


def _neighbour(name: str, signature: TaskSignature, table: object, index: int) -> Neighbour:
    values = {
        field: float(getattr(table, field)[index])
        for field in ("joint", "activation", "error", "coupling", "stderr_sketch")
    }
    return Neighbour(name=name, num_samples=sum(signature.num_samples), **values)


def _refuse_without(signature: TaskSignature, self_terms: str, where: str) -> None:
    if self_terms == "split" and "split" not in signature.self_terms:
        raise FisherSketchError(
            f"{where}: was made without two halves and has no split self terms; ask for self_terms='plain'"
        )


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
