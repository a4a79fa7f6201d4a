"""`python run.py experiment=sketch_accuracy` on a tiny model, whole, and what its figures are made from."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from saved_models import WORDS, save_tiny_llama

from analysis.jobs.sketch_accuracy import gaussian_reference
from experiments.errors import UserError
from experiments.scoring.sketch_error import sketch_error
from experiments.sketch_accuracy import SketchAccuracyConfig

ROOT = Path(__file__).resolve().parent.parent
M = "{block_hadamard: [64, 1024], hadamard: [], rademacher: [64]}"


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """Runs the experiment on four tiny texts, with more settings."""
    folder = tmp_path_factory.mktemp("accuracy")
    save_tiny_llama(folder / "model")
    entries = {}
    for number in range(4):
        words = random.Random(number)
        text = " ".join(f"w{words.randint(40 * number, WORDS - 1)}" for _ in range(400))
        (folder / f"{number}.txt").write_text(text)
        entries[f"t{number}"] = f"{{kind: local_text, group: words, path: {folder / str(number)}.txt}}"
    (folder / "conf" / "domains").mkdir(parents=True)
    lines = ["defaults: [/schema/domains/set@_here_, _self_]", "name: words", "window_tokens: 16"]
    lines += ["train_windows: 4", "sketch_windows: 4", "held_out_windows: 2", "piece_characters: 64"]
    lines += ["entries:", *(f"  {name}: {entry}" for name, entry in entries.items())]
    (folder / "conf" / "domains" / "words.yaml").write_text("\n".join(lines) + "\n")
    (folder / "conf" / "model").mkdir()
    (folder / "conf" / "model" / "tiny.yaml").write_text(
        f"defaults: [/schema/model/local_causal_lm@_here_, _self_]\nname: tiny\npath: {folder / 'model'}\n"
    )

    def run(name, *more):
        env = os.environ | {"FISHERSKETCH_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
        line = [sys.executable, "run.py", "--config-dir", str(folder / "conf"), "device=cpu", "smoke=true"]
        line += ["experiment=sketch_accuracy", "model=tiny", "domains=words", f"store={folder / name}", *more]
        done = subprocess.run(line, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300)
        return done, [path.parent for path in (folder / name).rglob("manifest.json")]

    return run


def test_a_run_holds_every_sketch_with_its_error(start):
    # In so few tokens split self terms need not be positive.
    more = ("settings.seeds=2", "estimator.self_terms=plain")
    done, folders = start("whole", f"settings.num_features={M}", *more)
    assert done.returncode == 0, done.stderr
    (folder,) = folders
    metrics = json.loads((folder / "metrics.json").read_text())
    with np.load(folder / "arrays" / "accuracy.npz", allow_pickle=False) as held:
        rows = {name: held[name] for name in held.files}
    assert len(rows["seed"]) == 3 * 3 * 2 and metrics["n_tokens"] == 4 * 4 * 16 and metrics["pairs"] == 6
    wide, narrow = (metrics["accuracy"]["block_hadamard"][m] for m in ("1024", "64"))
    assert wide["int4"]["payload_bytes"] == 512 and narrow["float32"]["payload_bytes"] == 256
    for cell in (wide["float32"], narrow["int8"], metrics["accuracy"]["rademacher"]["64"]["float32"]):
        for name in ("rmse_joint", "rmse_joint_stream_alone", "max_error_joint"):
            assert 0 < cell[name]["min"] <= cell[name]["mean"] <= cell[name]["max"] < 2
    assert wide["float32"]["rmse_joint"]["mean"] < narrow["float32"]["rmse_joint"]["mean"]
    chosen = (rows["projection"] == "block_hadamard") & (rows["num_features"] == 64)
    chosen &= rows["signature"] == "float32"
    assert narrow["float32"]["rmse_joint"]["mean"] == pytest.approx(rows["rmse_joint"][chosen].mean())
    table = (folder / "tables" / "accuracy.csv").read_text().splitlines()
    assert len(table) == 1 + 9 and table[0].startswith("projection,num_features,signature,payload_bytes")
    assert (folder / "figures" / "error_against_features_and_bytes.png").stat().st_size > 10_000
    assert "block_hadamard" in done.stdout and "2 draws of features" in done.stdout


def test_what_it_refuses(start):
    done, _ = start("few", "domains.limit=3")
    assert done.returncode == 1 and "error: domains=words: has 3 domains; needs at least 4" in done.stderr
    for features, message in (
        ({"dense": [64]}, "num_features.dense"),
        ({"hadamard": [1]}, "holds 1"),
        ({"hadamard": []}, "there are no features"),
    ):
        with pytest.raises(UserError, match=message):
            SketchAccuracyConfig(num_features=features).check("settings")


def test_errors_and_scores_are_split_by_the_exact_cosine():
    exact = np.array([[1, 0.9, 0.1], [0.9, 1, 0.2], [0.1, 0.2, 1]])
    sketched = exact + np.array([[0, 0.01, -0.03], [0.01, 0, 0.04], [-0.03, 0.04, 0]])
    names = ("joint", "activation", "error", "coupling")
    stderr = np.full((3, 3), 0.02)
    found = sketch_error(
        dict.fromkeys(names, sketched) | {"stderr_sketch": stderr}, dict.fromkeys(names, exact)
    )
    assert found["z_sd_high"] == pytest.approx(0.5)
    assert found["z_sd_low"] == pytest.approx(((1.5**2 + 2**2) / 2) ** 0.5)
    assert found["max_error_joint"] == pytest.approx(0.04)
    assert found["rmse_joint"] == pytest.approx((0.0026 / 3) ** 0.5)
    low = sketch_error(
        dict.fromkeys(names, sketched) | {"stderr_sketch": stderr}, dict.fromkeys(names, exact * 0.5)
    )
    assert np.isnan(low["z_sd_high"])


def test_the_reference_is_that_of_normal_features():
    joint = np.array([[1.0, 0.6], [0.6, 1.0]])
    assert gaussian_reference(joint) == pytest.approx(0.64)
    generator = np.random.default_rng(0)
    m, draws = 400, 400
    u = generator.standard_normal((draws, m))
    v = 0.6 * u + 0.8 * generator.standard_normal((draws, m))
    cosines = (u * v).sum(1) / np.sqrt((u**2).sum(1) * (v**2).sum(1))
    assert cosines.std() == pytest.approx(0.64 / m**0.5, rel=0.15)
