"""The command line of signature libraries."""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

from fishersketch.all_pairs import PairTable, align_pairs
from fishersketch.errors import FisherSketchError
from fishersketch.library import SUFFIX, SignatureLibrary, read_files
from fishersketch.self_terms import SELF_TERMS
from fishersketch.signature import TaskSignature

_MOST_COLUMNS = 12  # signatures that `compare` shows as a matrix


def main(arguments: Sequence[str]) -> int:
    """Runs one command.

    Args:
        arguments: what follows ``python -m fishersketch``.

    Returns:
        The exit code: 0, or 1 after an error of one line on stderr.
    """
    parsed = _parser().parse_args(arguments)
    run: Callable[[argparse.Namespace], None] = parsed.run
    try:
        run(parsed)
    except FisherSketchError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m fishersketch", description=__doc__)
    groups = parser.add_subparsers(required=True, metavar="library")
    library = groups.add_parser("library", help="a folder of signatures of one model")
    commands = library.add_subparsers(required=True, metavar="add|list|compare|nearest|remove")

    def command(name: str, run: Callable[[argparse.Namespace], None], about: str) -> argparse.ArgumentParser:
        found = commands.add_parser(name, help=about, description=about)
        found.add_argument("folder", help="folder of the library")
        found.set_defaults(run=run)
        return found

    add = command("add", _add, "add signatures; those that are there already stay as they are")
    add.add_argument("files", nargs="+", help="signature files, or folders such as a run's signatures/")
    add.add_argument("--name", help="name of a single signature; its file's name otherwise")
    command("list", _list, "names, samples and features of the signatures")
    compare = command("compare", _compare, "alignment of all pairs")
    compare.add_argument("--out", type=Path, help="also write all tables to this .npz file")
    compare.add_argument(
        "--fast", action="store_true", help="for thousands: no control variate and no standard errors"
    )
    nearest = command("nearest", _nearest, "the best sources for a signature")
    nearest.add_argument("target", help="a signature file, or a name in the library")
    nearest.add_argument("--count", type=int, default=5, help="sources to show (5)")
    for with_terms in (compare, nearest):
        with_terms.add_argument("--self-terms", choices=SELF_TERMS, default="split")
    remove = command("remove", _remove, "remove signatures")
    remove.add_argument("names", nargs="+", help="their names")
    return parser


def _add(parsed: argparse.Namespace) -> None:
    files = read_files(parsed.files)
    if parsed.name is not None:
        if len(parsed.files) > 1 or Path(parsed.files[0]).is_dir():
            raise FisherSketchError(f"--name {parsed.name}: goes with one file only")
        files = ((parsed.name, signature) for _, signature in files)
    library = SignatureLibrary(parsed.folder)
    before = set(library.names()) if library.folder.is_dir() else set()
    added = library.add(files)
    for name, held in added.items():
        if held in before or held != name:
            print(f"{name}: there already" + (f" as {held}" if held != name else ""))
    count = len(set(added.values()) - before)
    print(f"added {count}, {len(before) + count} in {parsed.folder}")


def _list(parsed: argparse.Namespace) -> None:
    rows = [["name", "samples", "features", "stored as"]]
    for name, signature in SignatureLibrary(parsed.folder).items():
        samples = f"{sum(signature.num_samples):,} {signature.spec.sample_unit}s"
        rows.append([name, samples, f"{signature.spec.num_features:,}", signature.dtype])
        if len(rows) == 2:
            provenance = ", ".join(f"{key} {value}" for key, value in signature.provenance.items())
            print(f"made from: {provenance or 'nothing stated'}")
    print(_aligned(rows) if len(rows) > 1 else f"{parsed.folder}: no signatures")


def _compare(parsed: argparse.Namespace) -> None:
    library = SignatureLibrary(parsed.folder)
    names = library.names()
    if len(names) < 2:
        raise FisherSketchError(f"{parsed.folder}: holds {len(names)} signatures; comparing takes two")
    table = align_pairs(library.items(names), len(names), parsed.self_terms, controlled=not parsed.fast)
    if parsed.out is not None:
        _write(table, parsed.out)
    if len(names) <= _MOST_COLUMNS:
        rows = [["joint", *names]]
        rows += [[name, *(f"{x:.3f}" for x in table.joint[i])] for i, name in enumerate(names)]
    else:
        others = table.joint.nan_to_num(-torch.inf).fill_diagonal_(-torch.inf)
        rows = [["name", "nearest", "joint", "stderr"]]
        for i, j in enumerate(others.argmax(1).tolist()):
            error = "" if parsed.fast else f"{table.stderr_sketch[i, j]:.3f}"
            rows.append([names[i], names[j], f"{table.joint[i, j]:.3f}", error])
    print(_aligned(rows))


def _write(table: PairTable, path: Path) -> None:
    tables = {
        name: getattr(table, name).numpy()
        for name in ("joint", "activation", "error", "coupling", "stderr_sketch")
    }
    try:
        with path.open("wb") as file:
            np.savez(file, names=np.array(table.names), **tables)
    except OSError as error:
        raise FisherSketchError(f"--out {path}: cannot be written ({error.strerror})") from error


def _nearest(parsed: argparse.Namespace) -> None:
    library = SignatureLibrary(parsed.folder)
    names = library.names()
    is_file = Path(parsed.target).is_file() or parsed.target.endswith(SUFFIX)
    if not is_file and parsed.target not in names:
        raise FisherSketchError(f"{parsed.target}: neither a file nor the name of one in {parsed.folder}")
    target = TaskSignature.load(parsed.target) if is_file else library.load(parsed.target)
    found = library.nearest(target, parsed.count, parsed.self_terms)
    if not found:
        raise FisherSketchError(f"{parsed.folder}: holds no signature but the target's; add some")
    rows = [["source", "joint", "stderr", "activation", "error", "coupling", "samples"]]
    for one in found:
        numbers = (one.joint, one.stderr_sketch, one.activation, one.error, one.coupling)
        rows.append([one.name, *(f"{value:.3f}" for value in numbers), f"{one.num_samples:,}"])
    print(_aligned(rows))


def _remove(parsed: argparse.Namespace) -> None:
    for name in parsed.names:
        SignatureLibrary(parsed.folder).remove(name)
        print(f"removed {name}")


def _aligned(rows: list[list[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
