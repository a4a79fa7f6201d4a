"""`python run.py` from the outside, on a tiny model and four tiny texts in a folder of their own."""

import os
import random
import subprocess
import sys
from pathlib import Path

from saved_models import WORDS, save_tiny_llama

ROOT = Path(__file__).resolve().parent.parent
DOMAINS = """
defaults: [/schema/domains/set@_here_, _self_]
name: words
window_tokens: 16
train_windows: 4
sketch_windows: 4
held_out_windows: 2
piece_characters: 64
"""


def make_tiny(folder: Path, texts: int = 4) -> None:
    """Writes the model, the texts and their configs, `model=tiny domains=words`."""
    save_tiny_llama(folder / "model")
    entries = "entries:\n"
    for number in range(texts):
        words = random.Random(number)
        text = " ".join(f"w{words.randint(40 * number, WORDS - 1)}" for _ in range(400))
        (folder / f"{number}.txt").write_text(text)
        entries += f"  t{number}: {{kind: local_text, group: words, path: {folder / str(number)}.txt}}\n"
    for group, name, content in (
        ("domains", "words", DOMAINS + entries),
        (
            "model",
            "tiny",
            "defaults: [/schema/model/local_causal_lm@_here_, _self_]\n"
            f"name: tiny\npath: {folder / 'model'}\n",
        ),
    ):
        (folder / "conf" / group).mkdir(parents=True)
        (folder / "conf" / group / f"{name}.yaml").write_text(content)


def environment(
    cache: Path, threads: int = 1, without: tuple[str, ...] = ("WANDB", "HYDRA")
) -> dict[str, str]:
    """This process's variables, without those of some libraries, with a cache and a number of threads."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(without)}
    return env | {
        "FISHERSKETCH_CACHE": str(cache),
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
    }


def run_tiny(
    folder: Path, store: str, *more: str, cache: str = "cache", threads: int = 1
) -> tuple[subprocess.CompletedProcess[str], list[Path]]:
    """Runs it, and returns how it ended and its run folders."""
    env = environment(folder / cache, threads)
    line = [sys.executable, "run.py", "--config-dir", str(folder / "conf"), "device=cpu", "smoke=true"]
    line += [f"store={folder / store}", *more]
    done = subprocess.run(line, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300)
    return done, sorted(path.parent for path in (folder / store).rglob("manifest.json"))
