"""A finished run folder as Weights & Biases sees it, offline."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SEND = """
import sys
from pathlib import Path
from experiments.errors import UserError
from experiments.loggers import LoggerConfig
cfg = LoggerConfig(mode=sys.argv[1], tags=["tiny"])
try:
    cfg.prepare()
    cfg.send(Path(sys.argv[2]))
except UserError as error:
    print(error)
"""


@pytest.fixture
def folder(tmp_path):
    import matplotlib.pyplot as plt

    run = tmp_path / "run"
    for name in ("tables", "figures"):
        (run / name).mkdir(parents=True)
    (run / "config.yaml").write_text("seed: 3\nmodel: {kind: package_gguf, name: small}\n")
    (run / "metrics.json").write_text(json.dumps({"top1": {"joint": 0.25, "random": None}, "model": "small"}))
    (run / "tables" / "top1.csv").write_text('estimator,top1\njoint,0.25\n"a, b",0.5\n')
    figure = plt.figure()
    figure.savefig(run / "figures" / "heatmap.png")
    plt.close(figure)
    return run


def send(mode: str, folder: Path) -> str:
    env = {name: value for name, value in os.environ.items() if not name.startswith("WANDB")}
    env |= {"HOME": str(folder.parent), "OMP_NUM_THREADS": "1"}
    line = [sys.executable, "-c", SEND, mode, str(folder)]
    done = subprocess.run(line, cwd=ROOT, env=env, capture_output=True, text=True, check=True, timeout=300)
    return done.stdout


def test_config_metrics_tables_and_figures_are_logged(folder):
    assert send("offline", folder) == ""
    (run,) = (folder / "wandb").glob("offline-run-*")
    (transactions,) = run.glob("run-*.wandb")
    log = transactions.read_bytes()
    for said in (b"top1.joint", b"0.25", b"package_gguf", b"tiny", b"tables/top1", b"figures/heatmap"):
        assert said in log, said
    (table,) = run.rglob("*.table.json")
    content = json.loads(table.read_text())
    assert content["columns"] == ["estimator", "top1"]
    assert content["data"] == [["joint", "0.25"], ["a, b", "0.5"]]
    (image,) = run.rglob("*.png")
    assert image.read_bytes() == (folder / "figures" / "heatmap.png").read_bytes()


def test_disabled_writes_nothing(folder):
    before = sorted(folder.rglob("*"))
    assert send("disabled", folder) == ""
    assert sorted(folder.rglob("*")) == before


def test_online_without_an_account_is_refused_before_the_job(folder):
    line = "logger.mode=online: no wandb account; run `wandb login` or use logger.mode=offline\n"
    assert send("online", folder) == line
