"""Where the target's and the sources' text comes from: paths, folders, globs, lists and domain entries."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from glob import glob, has_magic
from itertools import islice
from pathlib import Path
from typing import Any, cast

from experiments.domains.base import Source
from experiments.errors import UserError
from experiments.options import build_kind
from experiments.paths import user_path
from experiments.text_files import SUFFIXES, FieldError, is_text_file, texts

SIGNATURE = ".safetensors"
_OPEN_FILES = 16  # files of a folder that are read in turn at a time
_PART_CHARACTERS = 2_000_000  # of each part of a data set that one pass divides, all kept in memory


@dataclass(frozen=True)
class Candidate:
    """A text, or a finished signature.

    Attributes:
        name: Its name in the ranking.
        origin: Where it comes from.
        files: Its files, resolved; none for a data set.
        documents: Gives its texts in order, read as far as they are asked for.
        signature: File of the signature, where it is one and no text.
    """

    name: str
    origin: str
    files: frozenset[Path]
    documents: Callable[[], Iterator[str]]
    signature: Path | None = None


def find_target(value: Any, field: str | None) -> Candidate:
    """Returns the text to rank sources for.

    Args:
        value: A file, a folder (all its texts together) or a domain entry, a mapping with its ``kind``.
        field: Field that holds the text; None to find it.

    Raises:
        UserError: There is no such text.
    """
    if isinstance(value, Mapping):
        found = _entries("target", {str(value.get("repo", "target")): value})
        if len(found) > 1:
            raise UserError(f"target: is {len(found)} domains; set value to one of its split_by field")
        return found[0]
    path = user_path(str(value), "target")
    if path.suffix == SIGNATURE:
        raise UserError(
            f"target={value}: a signature, not a text; `python -m fishersketch library nearest` ranks those"
        )
    if not path.exists():
        raise UserError(f"target={value}: there is no such file or folder (looked in {Path.cwd()})")
    return _named([_of_path(path, "target", field)])[0]


def find_sources(value: Any, field: str | None) -> tuple[list[Candidate], dict[str, str]]:
    """Returns the sources to rank.

    Args:
        value: A folder (each file and each subfolder in it is a source), a file, a glob, a list of these
            (where a folder is one source), or domain entries by name, or one.
        field: Field that holds the text; None to find it.

    Returns:
        The sources, with names of their own, and what a folder holds besides with the reason to leave it out.

    Raises:
        UserError: Something named does not exist, or there is no source at all.
    """
    if isinstance(value, Mapping):
        entries = {str(value.get("repo", "source")): value} if "kind" in value else value
        return _entries("sources", entries), {}
    if isinstance(value, list | tuple):
        found: list[Candidate] = []
        for item in value:
            found += find_sources(item, field)[0] if isinstance(item, Mapping) else _of_item(item, field)
        if not found:
            raise UserError("sources=[]: must name at least one file, folder or glob")
        return _named(_once(found)), {}
    path = user_path(str(value), "sources")
    if not path.is_dir():
        return _named(_of_item(value, field)), {}
    inside = sorted(child for child in path.iterdir() if not child.name.startswith("."))
    chosen = [child for child in inside if _is_source(child)]
    if not chosen:
        kinds = ", ".join(f"*{suffix}" for suffix in (*SUFFIXES, SIGNATURE))
        raise UserError(f"sources={value}: the folder holds no {kinds}, nor folders of them")
    others = {
        child.name: "its name ends in no format of texts; a glob or a list reads any UTF-8 file"
        for child in inside
        if child not in chosen
    }
    return _named([_of_path(child, "sources", field) for child in chosen]), others


def _of_item(item: Any, field: str | None) -> list[Candidate]:
    path = user_path(str(item), "sources")
    if path.exists():
        return [_of_path(path, "sources", field)]
    if not has_magic(str(item)):
        raise UserError(f"sources={item}: there is no such file or folder (looked in {Path.cwd()})")
    matches = sorted(glob(str(path), recursive=True))
    if not matches:
        raise UserError(f"sources={item}: matches no file or folder (looked in {Path.cwd()})")
    return [_of_path(Path(match), "sources", field) for match in matches]


def _of_path(path: Path, key: str, field: str | None) -> Candidate:
    name, files = path.resolve().name, _files(path)
    if path.is_dir() and not files:
        raise UserError(f"{key}={path}: the folder holds no {', '.join(f'*{suffix}' for suffix in SUFFIXES)}")

    def documents() -> Iterator[str]:
        try:
            yield from _in_turn([texts(file, field) for file in files])
        except FieldError as error:
            chosen = "" if field is None else f"={field}"
            raise UserError(f"settings.field{chosen}: {error}") from None
        except UserError as error:
            raise UserError(f"{key}: {error}") from None

    resolved = frozenset(file.resolve() for file in files)
    return Candidate(name, str(path), resolved, documents, path if path.suffix == SIGNATURE else None)


def _entries(key: str, entries: Mapping[str, Any]) -> list[Candidate]:
    found = []
    for name, entry in entries.items():
        where = f"{key}.{name}"
        if not isinstance(entry, Mapping):
            raise UserError(f"{where}={entry}: must be a mapping with a kind, as domains.entries has them")
        given = {"group": "source", "licence": "not stated"} | dict(entry)
        source = cast(Source, build_kind("domain", given, where))
        for part, one in source.expand(name, where, _PART_CHARACTERS).items():
            found.append(_of_entry(part, one, where))
    return found


def _of_entry(name: str, source: Source, key: str) -> Candidate:
    return Candidate(name, source.describe(), frozenset(), lambda: source.documents(key))


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.rglob("*") if is_text_file(file) and file.is_file())


def _is_source(path: Path) -> bool:
    return bool(_files(path)) if path.is_dir() else is_text_file(path) or path.suffix == SIGNATURE


def _in_turn(readers: list[Iterator[str]]) -> Iterator[str]:
    """Yields from the readers in turn, so that the start of a folder's text is not that of its first file."""
    waiting = iter(readers)
    current = list(islice(waiting, _OPEN_FILES))
    while current:
        for reader in list(current):
            text = next(reader, None)
            if text is not None:
                yield text
                continue
            current.remove(reader)
            current += islice(waiting, 1)


def _once(candidates: list[Candidate]) -> list[Candidate]:
    """Returns the candidates without those whose files another one before has."""
    kept: dict[Any, Candidate] = {}
    for candidate in candidates:
        kept.setdefault(candidate.files or candidate.name, candidate)
    return list(kept.values())


def _named(candidates: list[Candidate]) -> list[Candidate]:
    """Returns the candidates under names that differ: more of the path where file names do not."""
    parts = [Path(candidate.origin).resolve().parts for candidate in candidates]
    names = [candidate.name for candidate in candidates]
    for depth in range(2, max(map(len, parts), default=0) + 1):
        counts = Counter(names)
        if max(counts.values(), default=0) < 2:
            break
        names = [
            "/".join(part[-depth:]) if counts[name] > 1 and candidate.files else name
            for name, part, candidate in zip(names, parts, candidates, strict=True)
        ]
    return [
        Candidate(name, one.origin, one.files, one.documents, one.signature)
        for name, one in zip(names, candidates, strict=True)
    ]
