"""`python run.py experiment=numerics` on a tiny model, whole, and what it refuses."""

import json

import numpy as np
import pytest
from tiny_run import make_tiny, run_tiny

from experiments.config import compose_run
from experiments.errors import UserError
from experiments.numerics import run

TINY = ("experiment=numerics", "model=tiny", "domains=words", "estimator.self_terms=plain")
TINY += ("domains.include=null", "estimator.num_features=256")


def test_every_format_has_its_error_against_float64(tmp_path):
    make_tiny(tmp_path)
    done, (folder,) = run_tiny(tmp_path, "runs", *TINY)
    assert done.returncode == 0, done.stderr
    metrics = json.loads((folder / "metrics.json").read_text())
    assert metrics["n_tokens"] == 4 * 4 * 16 and metrics["pairs"] == 6
    for estimator in ("exact", "sketch"):
        cells = metrics["error"][estimator]
        assert {weights: sorted(row) for weights, row in cells.items()} == {
            "float64": ["bfloat16", "float32"],
            "float32": ["bfloat16", "float32"],
            "bfloat16": ["bfloat16", "float32"],
        }
        single, rounded = cells["float32"]["float32"], cells["float64"]["bfloat16"]
        for measure in ("joint", "activation", "error", "coupling"):
            for cell in (single[measure], rounded[measure]):
                assert 0 < cell["rms_error"] <= cell["max_abs_error"]
            # Eight bits of a number's 24 make an error some 2**16 times as large; 100 tells which is which.
            assert 100 * single[measure]["rms_error"] < rounded[measure]["rms_error"] < 0.05
        assert single["joint"]["spearman"] == pytest.approx(1.0)
        assert cells["bfloat16"]["float32"]["joint"]["rms_error"] > 100 * single["joint"]["rms_error"]
    with np.load(folder / "arrays" / "exact_bfloat16_float32.npz") as found:
        with np.load(folder / "arrays" / "exact_float64_float64.npz") as truth:
            difference = (found["joint"] - truth["joint"])[np.triu_indices(4, 1)]
    cell = metrics["error"]["exact"]["bfloat16"]["float32"]["joint"]
    assert cell["max_abs_error"] == pytest.approx(np.abs(difference).max())
    assert cell["rms_error"] == pytest.approx(np.sqrt((difference**2).mean()))
    assert len((folder / "tables" / "errors.csv").read_text().splitlines()) == 1 + 2 * 6 * 4
    assert "max_abs_error" in done.stdout


@pytest.mark.parametrize(
    ("more", "line"),
    [
        (["estimator.exact_windows=0"], "estimator.exact_windows=0: nothing to align"),
        (["model=glyph_vit"], "model=glyph_vit: has no dtype to change"),
    ],
)
def test_what_it_refuses(more, line, store):
    _, cfg = compose_run(["experiment=numerics", *more])
    with pytest.raises(UserError, match=line):
        run(cfg, store)
