"""Ends runs in other ways than `tests/chaos.py`, on Linux, as root: part of ``make chaos``.

SIGTERM and Ctrl-C, a cache on a full disk (a small tmpfs), a cache on a read-only disk, and four processes at
once over one cache and store, started where a process was killed over its locks. The record gets ends.json,
after every check.
"""

import json
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.chaos import changed, equal, files, finished, prepare, redone, results, start

PROCESSES = 4
_BAR = re.compile(r"\d+%\|.*\| \d+/\d+ \[")  # of a progress bar

Results = tuple[dict, dict]


def main(record: Path) -> int:
    """Makes every check.

    Returns:
        How many went wrong.
    """
    record.mkdir(parents=True, exist_ok=True)
    checks: dict[str, dict] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder)
        wanted = finished(folder, "undisturbed")
        for check in (_signals, _disk, _shared):
            for title, found in check(folder, wanted):
                checks[title] = found
                (record / "ends.json").write_text(json.dumps(checks, indent=1) + "\n")
                print(title, found, flush=True)
    wrong = [title for title, found in checks.items() if not all(found["holds"].values())]
    print(f"{len(checks)} other ends; {len(wrong)} went wrong", *wrong)
    return len(wrong)


def _signals(folder: Path, wanted: Results) -> Iterator[tuple[str, dict]]:
    for number in (signal.SIGTERM, signal.SIGINT):
        name = number.name
        cache = folder / f"{name}-cache"
        run = start(folder, name)
        _wait_for(run, cache, 30)
        run.send_signal(number)
        code, lines = _end(run)
        before = files(cache)
        again = finished(folder, name)
        after = files(cache)
        yield (
            name,
            {
                "lines": lines,
                "in_cache": len(before),
                "in_the_end": len(after),
                "holds": {
                    "one_line": len(lines) == 1 and lines[0].startswith("interrupted; "),
                    "exit_code": code == 128 + number,
                    "nothing_half_written": not _left(cache),
                    "nothing_redone": not redone(changed(before, after)),
                    "equal": equal(again, wanted),
                },
            },
        )


def _disk(folder: Path, wanted: Results) -> Iterator[tuple[str, dict]]:
    whole, cache = folder / "undisturbed-cache", folder / "disk-cache"
    used = sum((whole / path).stat().st_size for path in files(whole))
    cache.mkdir()
    _mount(cache, f"size={used // 2}")
    try:
        code, lines = _end(start(folder, "disk"))
        before = files(cache)
        half_written = _left(cache)
        _mount(cache, "remount,size=1g")
        again = finished(folder, "disk")
        after = files(cache)
        yield (
            "full_disk",
            {
                "lines": [line.replace(str(folder), "FOLDER") for line in lines],
                "disk_bytes": used // 2,
                "in_cache": len(before),
                "in_the_end": len(after),
                "holds": {
                    "one_line": len(lines) == 1
                    and "is not in the cache yet" in lines[0]
                    and "No space left on device" in lines[0],
                    "exit_code": code == 1,
                    "nothing_half_written": not half_written,
                    "nothing_redone": not redone(changed(before, after)),
                    "equal": equal(again, wanted),
                },
            },
        )
        _mount(cache, "remount,ro")
        served = finished(folder, "disk")
        code, lines = _end(start(folder, "disk", "seed=1"))
        yield (
            "read_only_cache",
            {
                "lines": [line.replace(str(folder), "FOLDER") for line in lines],
                "in_cache": len(after),
                "in_the_end": len(files(cache)),
                "holds": {
                    "finished_work_is_served": equal(served, wanted),
                    "one_line": len(lines) == 1 and lines[0].startswith("error: "),
                    "exit_code": code == 1,
                    "nothing_written": files(cache) == after,
                },
            },
        )
    finally:
        subprocess.run(["umount", str(cache)], check=True)


def _shared(folder: Path, wanted: Results) -> Iterator[tuple[str, dict]]:
    cache = folder / "shared-cache"
    victim = start(folder, "shared")
    _wait_for(victim, cache, 30)
    victim.kill()
    victim.communicate()
    locks = len(list(cache.rglob("*.lock")))
    before = seen = files(cache)
    again: set[str] = set()
    runs = [start(folder, "shared") for _ in range(PROCESSES)]
    waiting = True
    while waiting:
        waiting = any(run.poll() is None for run in runs)
        now = files(cache)
        again |= set(redone(changed(seen, now)))
        seen = now
        time.sleep(0.02)
    ends = [_end(run) for run in runs]
    found = [results(path.parent) for path in (folder / "shared").rglob("metrics.json")]
    yield (
        f"{PROCESSES}_processes",
        {
            "locks_of_a_dead_process": locks,
            "in_cache": len(before),
            "in_the_end": len(seen),
            "written_once": len(seen.keys() - again),
            "holds": {
                "there_was_a_dead_lock": locks > 0,
                "exit_codes": [code for code, _ in ends] == [0] * PROCESSES,
                "each_file_written_once": not again,
                "same_files_as_alone": seen.keys() == files(folder / "undisturbed-cache").keys(),
                "nothing_half_written": not _left(cache),
                "equal": len(found) == PROCESSES and all(equal(one, wanted) for one in found),
            },
        },
    )


def _wait_for(run: subprocess.Popen, cache: Path, count: int) -> None:
    """Waits until so many files are in a cache."""
    while run.poll() is None and len(files(cache)) < count:
        time.sleep(0.01)


def _end(run: subprocess.Popen) -> tuple[int, list[str]]:
    """Gives the exit code, and the lines on stderr without those of progress bars."""
    errors = run.communicate()[1].decode()
    lines = [line.rpartition("\r")[2] for line in errors.split("\n")]
    return run.returncode, [line for line in lines if line.strip() and not _BAR.search(line)]


def _left(cache: Path) -> list[str]:
    return [str(path.relative_to(cache)) for path in cache.rglob(".*") if path.is_file()]


def _mount(folder: Path, options: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=True)


if __name__ == "__main__":
    sys.exit(min(main(Path(sys.argv[1])), 1))
