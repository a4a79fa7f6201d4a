"""Sweeps through launchers: real workers of joblib, and SLURM with stand-ins for its three commands."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.devices import pick_device

ROOT = Path(__file__).parent.parent
SWEEP = ["domains=tiny", "transfer=none", "estimator.num_features=64,128", "smoke=true"]


def sweep(folder: Path, *overrides: str, **environment: str) -> list[dict]:
    """Runs a sweep of two jobs; gives the metrics of each."""
    done = subprocess.run(
        [sys.executable, "run.py", "-m", *overrides, *SWEEP, f"store={folder}/runs"],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"} | environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    found = sorted((folder / "runs").rglob("metrics.json"))
    return [json.loads(path.read_text()) for path in found]


def test_joblib_runs_jobs_side_by_side(tmp_path):
    found = sweep(tmp_path, "hydra/launcher=joblib", "hydra.launcher.n_jobs=2")
    assert [metrics["sketch"]["signature_bytes"] for metrics in found] == [256, 512]


def test_slurm_gets_an_array_with_a_gpu_a_job(tmp_path):
    tools = Path(__file__).parent / "fake_slurm"
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"
    partition = "hydra.launcher.partition=gpu"
    found = sweep(tmp_path, "hydra/launcher=slurm_gpu", partition, PATH=path, FAKE_SLURM=str(tmp_path))
    assert [metrics["sketch"]["signature_bytes"] for metrics in found] == [256, 512]
    script = (tmp_path / "script.sh").read_text().splitlines()
    options = {line.removeprefix("#SBATCH --") for line in script if line.startswith("#SBATCH")}
    assert {"array=0-1%2", "gpus-per-node=1", "partition=gpu", "mem=64GB", "time=240"} <= options
    assert any(line.startswith("srun") and "submitit.core._submit" in line for line in script)


@pytest.mark.slow
def test_ray_runs_jobs_on_a_local_cluster(tmp_path):
    pytest.importorskip("ray", reason="the extra [ray] is not installed")
    found = sweep(tmp_path, "hydra/launcher=ray", "+hydra.launcher.ray.init.num_cpus=2")
    assert [metrics["sketch"]["signature_bytes"] for metrics in found] == [256, 512]


def test_jobs_of_a_sweep_take_turns_at_the_gpus(monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    assert [pick_device("auto", job) for job in range(4)] == ["cuda:0", "cuda:1", "cuda:2", "cuda:0"]
    assert pick_device("cuda:2", 1) == "cuda:2" and pick_device("cuda", 5) == "cuda:0"
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert pick_device("auto", 1) == "cpu"


def test_a_launcher_that_is_not_installed_is_named():
    done = subprocess.run(
        [sys.executable, "run.py", "-m", "hydra/launcher=rays", "seed=0,1"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 1
    assert "rays" in done.stderr and "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
