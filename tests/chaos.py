"""Kills runs at random moments and lets them go on: ``make chaos``.

Each kill has a cache of its own. A run of twelve small domains (sketches, exact alignment, full fine-tuning)
on a tiny random model gets SIGKILL at a moment drawn evenly over the time in which an undisturbed run fills
its cache, and the same command then runs to its end. What has to hold: metrics and arrays equal those of the
undisturbed run, nothing that was in the cache is written again, and no file is left that was being written.
The record gets one JSON file, after every kill; a record that is there is gone on with.

`tests/chaos_ends.py` ends runs in other ways.
"""

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import numpy as np

from tests.saved_models import save_tiny_llama

ROOT = Path(__file__).resolve().parent.parent
DOMAINS = 12


def main(record: Path, kills: int = 50) -> int:
    """Makes the kills that a record lacks.

    Returns:
        How many went wrong.
    """
    record.mkdir(parents=True, exist_ok=True)
    file = record / "kills.json"
    held = json.loads(file.read_text()) if file.exists() else {"kills": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder)
        wanted = finished(folder, "undisturbed")
        times = [written for _, written in files(folder / "undisturbed-cache").values()]
        seconds = (max(times) - min(times)) / 1e9
        held["seconds_of_filling_the_cache"] = round(seconds, 1)
        for number in range(len(held["kills"]), kills):
            held["kills"].append(_kill(folder, number, seconds, wanted))
            file.write_text(json.dumps(held, indent=1) + "\n")
            print(held["kills"][-1], flush=True)
    wrong = [kill for kill in held["kills"] if not kill["equal"] or redone(kill["rewritten"]) or kill["left"]]
    amid = [kill for kill in held["kills"] if 0 < kill["in_cache"] < kill["in_the_end"]]
    print(f"{len(held['kills'])} kills, {len(amid)} of them amid the work; {len(wrong)} went wrong")
    return len(wrong)


def prepare(folder: Path) -> None:
    save_tiny_llama(folder / "model")
    entries = ""
    for number in range(DOMAINS):
        words = " ".join(f"w{(17 * number + (7 + number) * n * n + n) % 180}" for n in range(1500))
        (folder / f"{number}.txt").write_text(words)
        entries += f"  d{number}: {{kind: local_text, group: g{number % 4}, licence: none, "
        entries += f"path: {folder}/{number}.txt}}\n"
    bodies = {
        "model/tiny": f"defaults: [/schema/model/local_causal_lm@_here_, _self_]\npath: {folder}/model\n",
        "domains/twelve": "defaults: [/schema/domains/set@_here_, _self_]\nname: twelve\n"
        f"window_tokens: 16\ntrain_windows: 8\nsketch_windows: 8\nheld_out_windows: 4\n"
        f"piece_characters: 64\nentries:\n{entries}",
    }
    for name, body in bodies.items():
        path = folder / "conf" / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(body)


def start(folder: Path, name: str, *more: str) -> subprocess.Popen:
    line = [sys.executable, "run.py", "--config-dir", str(folder / "conf"), "model=tiny", "domains=twelve"]
    line += ["smoke=true", "transfer.learning_rate=1e-2", f"store={folder}/{name}", *more]
    environment = {"FISHERSKETCH_CACHE": str(folder / f"{name}-cache"), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        line,
        cwd=ROOT,
        env=os.environ | environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def finished(folder: Path, name: str) -> tuple[dict, dict]:
    """Runs to the end; gives the results."""
    run = start(folder, name)
    _, errors = run.communicate()
    if run.returncode:
        raise SystemExit(f"{name}: exit code {run.returncode}\n{errors.decode()}")
    return results(max((folder / name).rglob("metrics.json")).parent)


def results(run: Path) -> tuple[dict, dict]:
    """Metrics of a run without times, and arrays."""
    metrics = json.loads((run / "metrics.json").read_text())
    arrays = {
        f"{path.stem}.{key}": array for path in run.rglob("*.npz") for key, array in np.load(path).items()
    }
    return {key: value for key, value in metrics.items() if key != "seconds"}, arrays


def _kill(folder: Path, number: int, seconds: float, wanted: tuple[dict, dict]) -> dict:
    for attempt in itertools.count():
        name = f"kill{number}-{attempt}"
        moment = random.Random(name).uniform(0, seconds)
        cache = folder / f"{name}-cache"
        run = start(folder, name)
        while run.poll() is None and not files(cache):
            time.sleep(0.01)
        with suppress(subprocess.TimeoutExpired):
            run.wait(moment)
        if run.poll() is None:  # else it was over before its moment: another is drawn
            break
    os.killpg(run.pid, signal.SIGKILL)
    run.communicate()
    before = files(cache)
    metrics, arrays = finished(folder, name)
    after = files(cache)
    return {
        "seconds": round(moment, 2),
        "attempts": attempt + 1,
        "equal": equal((metrics, arrays), wanted),
        "in_cache": len(before),
        "in_the_end": len(after),
        "rewritten": changed(before, after),
        "left": [str(path) for path in cache.rglob(".*") if path.is_file()],
    }


def equal(one: tuple[dict, dict], other: tuple[dict, dict]) -> bool:
    """Whether two runs have the same metrics and arrays, NaN where the other has NaN."""
    mine, theirs = one[1], other[1]
    return (
        one[0] == other[0]
        and mine.keys() == theirs.keys()
        and all(np.array_equal(mine[key], theirs[key], equal_nan=mine[key].dtype.kind == "f") for key in mine)
    )


def redone(rewritten: list[str]) -> list[str]:
    """Artefacts that were written again.

    A key is written before its artefact, so that of an artefact cut short is rightly written again.
    """
    return [path for path in rewritten if not path.endswith(".key.json")]


def files(cache: Path) -> dict[str, tuple[int, int]]:
    """Finished files of a cache, with their inode and time of writing."""
    found = (path for path in cache.rglob("*") if path.is_file() and path.suffix != ".lock")
    return {
        str(path.relative_to(cache)): (path.stat().st_ino, path.stat().st_mtime_ns)
        for path in found
        if not path.name.startswith(".")
    }


def changed(before: dict[str, tuple[int, int]], after: dict[str, tuple[int, int]]) -> list[str]:
    """Files that are not what they were."""
    return [path for path, when in before.items() if after.get(path) != when]


if __name__ == "__main__":
    sys.exit(min(main(Path(sys.argv[1]), *map(int, sys.argv[2:])), 1))
