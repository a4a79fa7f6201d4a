"""The cost experiment: a tiny run of every part, and what its numbers are made of."""

import json
import os
import random
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
import torch
from saved_models import WORDS, save_tiny_llama

from experiments.cost import CostConfig
from experiments.costs.growth import exponents, growth_rows
from experiments.costs.peers import peer_rows
from experiments.costs.sketch_work import form_errors, random_logits, random_samples, updated
from experiments.costs.storage import exact_error_bytes, storage_rows
from experiments.costs.timing import Clock, ratios, spread
from experiments.errors import UserError
from experiments.options import check
from fishersketch import FisherSketch, SketchSpec
from fishersketch.head_transform import OutputTransform

ROOT = Path(__file__).resolve().parent.parent
CPU = Clock(torch.device("cpu"))
SPREAD = {"median", "min", "max"}


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """The folder of a smoke run on a tiny model and words."""
    folder = tmp_path_factory.mktemp("cost")
    save_tiny_llama(folder / "model")
    words = random.Random(0)
    entries = ""
    for name in ("first", "second", "third"):
        (folder / f"{name}.txt").write_text(" ".join(f"w{words.randrange(WORDS)}" for _ in range(600)))
        entries += f"  {name}: {{kind: local_text, group: words, path: {folder / name}.txt}}\n"
    (folder / "conf" / "domains").mkdir(parents=True)
    (folder / "conf" / "model").mkdir()
    (folder / "conf" / "domains" / "words.yaml").write_text(
        "defaults: [/schema/domains/set@_here_, _self_]\nname: words\nwindow_tokens: 16\ntrain_windows: 4\n"
        f"sketch_windows: 4\nheld_out_windows: 2\npiece_characters: 64\nentries:\n{entries}"
    )
    (folder / "conf" / "model" / "tiny.yaml").write_text(
        f"defaults: [/schema/model/local_causal_lm@_here_, _self_]\nname: tiny\npath: {folder / 'model'}\n"
    )
    line = [sys.executable, "run.py", "--config-dir", str(folder / "conf"), "experiment=cost_smoke"]
    line += ["model=tiny", "domains=words", "domains.window_tokens=16", f"hydra.run.dir={folder / 'run'}"]
    env = os.environ | {"FISHERSKETCH_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(line, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return folder / "run"


def test_a_smoke_run_has_every_documented_metric(finished):
    found = json.loads((finished / "metrics.json").read_text())
    spreads = [
        *(found["overhead"]["smollm2"][m] for m in ("64", "256")),
        found["overhead"]["stream"]["64"],
        found["overhead"]["llama_head"],
        *(found["overhead"]["llama_head_batches"][count] for count in ("8", "16")),
        *(found["speedup"][name] for name in ("dense_rademacher", "full_srht")),
        *(found["speedup"]["update"][name] for name in ("dense_rademacher", "full_srht")),
        *found["speedup"]["exact_gram"].values(),
    ]
    for held in spreads:
        assert set(held) >= SPREAD
        assert 0 < held["min"] <= held["median"] <= held["max"]
    assert len(found["speedup"]["exact_gram"]) == 8
    assert set(found["growth"]["exponents"]) == {"n", "d", "K", "m"}
    assert set(found["memory"]["peak_bytes"]) == {"64", "128"}
    assert 1 <= found["memory"]["ratio"] < 1.05
    assert found["exact_error_bytes"] == 4 * 1024**2
    assert (found["state_bytes"], found["signature_bytes"]) == (3 * 2 * 64 * 8, 64 * 4)
    assert found["header_bytes"] < 1024
    assert {row["library"] for row in found["peers"]} == {"fishersketch", "traker", "dattri", "bergson"}
    assert found["threads"] == 1


def test_a_smoke_run_is_shown_as_tables_and_figures(finished):
    tables = {path.stem for path in (finished / "tables").glob("*.csv")}
    assert tables == {"ratios", "exact", "growth", "exponents", "storage", "peers", "cost"}
    assert {path.name for path in (finished / "figures").glob("*.png")} == {
        "growth.png",
        "cost_against_vocabulary.png",
    }
    assert (finished / "tables" / "ratios.md").read_text().count("Smoke run, not a result") == 1


def test_turns_alternate_and_are_prepared_for():
    seen: list[str] = []
    works = {"a": lambda: seen.append("a"), "b": lambda: seen.append("b")}
    taken = CPU.interleaved(works, 2, lambda: seen.append("-"))
    assert "".join(seen) == "-a-b" * 3
    assert {name: len(seconds) for name, seconds in taken.items()} == {"a": 2, "b": 2}


def test_processor_time_counts_work_and_no_waiting():
    block = torch.randn(300, 300, generator=torch.Generator().manual_seed(0))
    work = CPU.seconds(lambda: [block @ block for _ in range(40)])
    assert 0 <= CPU.seconds(lambda: torch.tensor(0)) < work


def test_spread_and_ratios_are_of_turns():
    assert spread(ratios([2.0, 9.0, 4.0], [1.0, 3.0, 1.0])) == {"median": 3.0, "min": 2.0, "max": 4.0}


def test_the_work_timed_is_the_work_of_a_sketch():
    samples = random_samples(24, 6, 40, CPU.device)
    spec = SketchSpec(6, 40, 32)
    sketch = FisherSketch(spec)
    sketch.update(*samples)
    sums = updated(spec, spec.projections(), samples, 8)()
    expected = sketch.state()[0]["sums"]
    assert samples[2].unique().tolist() == [0, 1]
    assert torch.allclose(sums, expected, rtol=1e-4, atol=1e-4 * float(expected.abs().max()))


def test_errors_formed_are_probabilities_minus_the_label():
    logits, labels = random_logits(5, 7, CPU.device)
    expected = torch.softmax(logits, 1) - torch.nn.functional.one_hot(labels, 7)
    errors = form_errors(OutputTransform(), logits.clone(), labels)
    assert torch.allclose(errors, expected, atol=1e-6)
    with pytest.raises(FloatingPointError, match="not finite"):
        form_errors(OutputTransform(), logits.fill_(torch.nan), labels)


def test_powers_are_fitted_on_each_axis():
    rows = [
        {"axis": axis, "value": value, "seconds": {"median": 0.1 * value**power}}
        for axis, power in (("n", 1.0), ("K", 0.5))
        for value in (16, 64, 256)
    ]
    assert exponents(rows) == pytest.approx({"n": 1.0, "K": 0.5})


def test_time_grows_with_the_samples():
    base = {"n": 64, "d": 16, "K": 4096, "m": 256}
    values = {"n": [64, 2048], "d": [16, 32], "K": [2048, 4096], "m": [128, 256]}
    rows = growth_rows(base, values, "block_hadamard", CPU, 3)
    assert 0.4 < exponents(rows)["n"] < 1.6


def test_storage_is_that_of_the_paper():
    rows = storage_rows(8, 128, [4096], {"model": "0" * 16}, CPU)
    by_dtype = {row["dtype"]: row for row in rows}
    assert by_dtype["float32"]["state_bytes"] == 192 * 1024
    assert [by_dtype[d]["signature_bytes"] for d in ("float32", "int8", "int4")] == [16384, 4096, 2048]
    assert all(0 < row["header_bytes"] < 1024 for row in rows)
    assert round(exact_error_bytes(128256) / 2**30, 1) == 61.3


def test_a_peer_that_cannot_be_run_is_a_row_that_says_why():
    rows = peer_rows(8, [64], 64, 4, 1, CPU, 1)
    for row in rows:
        assert np.isnan(row["seconds_per_token"])
        known = row["library"] == "fishersketch" or row["version"] is not None
        assert row["status"] == (
            "not run: needs more than 0 GiB" if known else "not installed: pip install -e '.[bench]'"
        )
    absent = [row["library"] for row in rows if row["version"] is None and row["library"] != "fishersketch"]
    for library in absent:
        with pytest.raises(metadata.PackageNotFoundError):
            metadata.version(library)


def test_settings_that_measure_nothing_are_refused():
    with pytest.raises(UserError, match=r"settings\.growth=.*two or more values"):
        check(CostConfig(growth={"n": [1, 2], "d": [1, 2], "K": [1, 2], "m": [1]}), "settings")
    with pytest.raises(UserError, match=r"settings\.exact_sizes=.*pairs"):
        check(CostConfig(exact_sizes=[[576]]), "settings")
    with pytest.raises(UserError, match=r"settings\.parts=speed: must be one of"):
        check(CostConfig(parts=["speed"]), "settings")
