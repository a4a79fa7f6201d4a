"""Streams ten million tokens and watches the memory: ``make soak`` (on Linux).

The tokens go the way of a run's: a text file, read block by block; the tokenizer; windows; the model; the
sketch. The model is SmolLM2-135M cut down, so that a core does some thousands of tokens a second rather than
five hundred: the first of its 30 layers, and the first 4,096 entries of its tokenizer and rows of its
embedding and head, all with the real weights. The text is that of the hundred domains of ``text100``, their
documents in a random order: languages differ in tokens a character, and so would the blocks read at a time.

A process of its own streams, with Python's small objects in malloc too, and notes two figures: its resident
memory, and the bytes that malloc has handed out and not had back. A leak is in both; blocks of many sizes
come and go and leave holes, which are in the first alone. This process writes the record, rss.csv,
soak.json and rss.png, after every half million tokens.
"""

import csv
import ctypes
import json
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
LAYERS, VOCABULARY = 1, 4096
WINDOW_TOKENS = 128
ROW_TOKENS, PART_TOKENS = 20_000, 500_000
WARM_UP = 0.1  # share of the tokens
MOST_GROWTH = 1_000_000  # bytes in use a million tokens; a leak of one number a token is eight times as much


def main(record: Path, tokens: int = 10_000_000) -> int:
    """Streams and writes the record.

    Returns:
        1 if memory in use grew by a byte a token or more after the warm-up, else 0.
    """
    os.environ["PYTHONMALLOC"] = "malloc"
    record.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_cut_model(folder / "model")
        write_text(folder / "text.txt")
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe(duplex=False)
        worker = context.Process(target=_stream, args=(folder, tokens, there))
        worker.start()
        there.close()
        rows: list[dict[str, Any]] = []
        growth, written = float("nan"), 0
        while (row := _next(here)) is not None:
            rows.append(row)
            if row["tokens"] - written >= PART_TOKENS:
                growth, written = _write(record, rows, tokens), row["tokens"]
        worker.join()
        if worker.exitcode or not rows:
            print(f"the stream ended with exit code {worker.exitcode}", file=sys.stderr)
            return 1
        growth = _write(record, rows, tokens)
    print(f"{rows[-1]['tokens']:,} tokens; memory in use grew by {growth:,.0f} bytes a million tokens")
    return int(not growth < MOST_GROWTH)


def save_cut_model(folder: Path) -> None:
    """Writes the first layers of SmolLM2-135M, and the first entries of its vocabulary."""
    import torch

    from experiments.models.package_gguf import PackageGguf

    whole = PackageGguf().build(torch.device("cpu"))
    model: Any = whole.model
    model.model.layers = model.model.layers[:LAYERS]
    model.config.num_hidden_layers = LAYERS
    model.config.layer_types = None
    model.resize_token_embeddings(VOCABULARY)
    model.save_pretrained(folder)
    whole.tokenizer.save_pretrained(folder)
    path = folder / "tokenizer.json"
    held = json.loads(path.read_text("utf-8"))
    pairs = held["model"]
    pairs["vocab"] = {entry: number for entry, number in pairs["vocab"].items() if number < VOCABULARY}
    pairs["merges"] = [pair for pair in pairs["merges"] if "".join(pair) in pairs["vocab"]]
    path.write_text(json.dumps(held), "utf-8")


def write_text(path: Path) -> None:
    """Writes the text of a hundred domains into one file, documents in a random order."""
    from tests.composed import composed

    sources = composed("domains", "text100").chosen().items()
    documents = [document for name, source in sources for document in source.documents(name)]
    random.Random(0).shuffle(documents)
    with path.open("w", encoding="utf-8") as file:
        for document in documents:
            text = document.replace("\0", "")  # a file with one is binary to `local_text`
            file.write(f"{text}\n")


class _Mallinfo2(ctypes.Structure):
    """What glibc (2.33 or newer) says of its memory, in bytes; of ten fields those in use are two."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()
    ]


def bytes_in_use() -> int:
    """Bytes that malloc has handed out and not had back, in all its arenas and mapped blocks."""
    mallinfo2 = ctypes.CDLL("libc.so.6").mallinfo2
    mallinfo2.restype = _Mallinfo2
    info = mallinfo2()
    return info.uordblks + info.hblkhd


def _stream(folder: Path, tokens: int, sender: Connection) -> None:
    def note(count: int, passes: int) -> None:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        sender.send({
            "tokens": count,
            "rss_bytes": pages * os.sysconf("SC_PAGE_SIZE"),
            "in_use_bytes": bytes_in_use(),
            "cpu_seconds": round(time.process_time(), 1),
            "passes": passes,
        })

    import torch

    from experiments.config import EstimatorConfig
    from experiments.domains.local_text import LocalText
    from experiments.models.local_causal_lm import LocalCausalLM
    from experiments.selecting.reading import read_sample
    from experiments.signatures import provenance, sketch_spec
    from experiments.streaming import stream_terms
    from fishersketch import FisherSketch

    loaded = LocalCausalLM(name="cut", path=str(folder / "model")).build(torch.device("cpu"))
    cfg = EstimatorConfig()
    sketch = FisherSketch(sketch_spec(cfg, loaded, seed=0), provenance(cfg, loaded))
    note(0, 0)
    windows_seen = 0
    for passes, document in _documents(LocalText(group="soak", path=str(folder / "text.txt"))):
        windows = read_sample([document], loaded.tokenizer, tokens, WINDOW_TOKENS).windows
        for terms in stream_terms(loaded, windows, windows_seen, cfg, "soak"):
            before = sketch.num_tokens // ROW_TOKENS
            sketch.update(terms.activations, terms.errors, terms.group)
            if sketch.num_tokens // ROW_TOKENS > before:
                note(sketch.num_tokens, passes)
            if sketch.num_tokens >= tokens:
                sketch.signature()
                return
        windows_seen += len(windows)


def _documents(text: Any) -> Iterator[tuple[int, str]]:
    passes = 0
    while True:
        passes += 1
        yield from ((passes, document) for document in text.documents("soak"))


def _next(receiver: Connection) -> dict[str, Any] | None:
    try:
        return receiver.recv()
    except EOFError:
        return None


def _write(record: Path, rows: list[dict[str, Any]], tokens: int) -> float:
    """Writes the record as far as it goes; gives the growth of memory in use, bytes a million tokens."""
    import torch

    from experiments.provenance import commit

    with (record / "rss.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, rows[0], lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
    count, rss, used = (
        np.array([row[name] for row in rows], float) for name in ("tokens", "rss_bytes", "in_use_bytes")
    )
    warm = count >= WARM_UP * tokens
    about: dict[str, Any] = {
        "command": f"python -m tests.soak {record} {tokens}",
        "git_commit": commit(ROOT)[0],
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "model": f"SmolLM2-135M-Instruct, {LAYERS} of 30 layers, {VOCABULARY} of 49,152 vocabulary entries",
        "text": "text100, all its documents in random order in one file",
        "passes_over_the_text": rows[-1]["passes"],
        "window_tokens": WINDOW_TOKENS,
        "tokens": rows[-1]["tokens"],
        "tokens_wanted": tokens,
        "cpu_seconds": rows[-1]["cpu_seconds"],
    }
    for name, held in (("rss", rss), ("in_use", used)):
        growth, error = _slope(count[warm], held[warm])
        about |= {
            f"{name}_bytes": {
                "start": int(held[0]),
                "after_warm_up": int(held[warm][0]) if warm.any() else None,
                "end": int(held[-1]),
                "max": int(held.max()),
            },
            f"{name}_growth_bytes_per_million_tokens": None if np.isnan(growth) else round(growth),
            f"{name}_standard_error_of_growth": None if np.isnan(error) else round(error),
        }
    (record / "soak.json").write_text(json.dumps(about, indent=1) + "\n")
    _draw(record / "rss.png", count, {"resident": rss, "in use": used}, about)
    return growth


def _slope(count: np.ndarray, held: np.ndarray) -> tuple[float, float]:
    """Fits a line to the medians of half a million tokens each: bytes a million tokens, standard error."""
    from scipy.stats import linregress

    parts = [count // PART_TOKENS == part for part in np.unique(count // PART_TOKENS)]
    if len(parts) < 3:
        return float("nan"), float("nan")
    fit = linregress([count[part].mean() / 1e6 for part in parts], [np.median(held[part]) for part in parts])
    return float(fit.slope), float(fit.stderr)


def _draw(path: Path, count: np.ndarray, curves: dict[str, np.ndarray], about: dict[str, Any]) -> None:
    from analysis import style

    with style.theme():
        caption = f"{about['model']}; text100; {about['tokens']:,} tokens; m = 4,096; seed 0; CPU"
        figure = style.new_figure(2.4, caption)
        axes = figure.subplots()
        for name, held in curves.items():
            axes.plot(count / 1e6, held / 1e6, label=name)
        axes.legend()
        axes.set_ylim(0)
        axes.set_xlabel("tokens streamed (million)")
        axes.set_ylabel("memory (MB)")
        style.grid(axes)
        style.save(figure, path, "png", dpi=120)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *map(int, sys.argv[2:])))
