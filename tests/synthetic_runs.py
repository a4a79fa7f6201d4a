"""Writes synthetic run folders, small made-up numbers in the format of the run store."""

import json
from pathlib import Path

import numpy as np
import yaml

DOMAINS = {
    "de": "language",
    "nl": "language",
    "fr": "language",
    "python": "code",
    "c": "code",
    "smiles_zinc": "strings",
    "smiles_drugs": "strings",
}


def synthetic_alignments(seed: int = 0, domains: dict[str, str] = DOMAINS) -> dict[str, np.ndarray]:
    """Factors that are higher inside a group, their product the joint alignment."""
    random = np.random.default_rng(seed)
    groups = list(domains.values())
    count = len(groups)
    same = np.array([[a == b for b in groups] for a in groups])
    arrays: dict[str, np.ndarray] = {"names": np.array(list(domains)), "groups": np.array(groups)}
    for key, spread in (("activation", 0.2), ("error", 0.5), ("coupling", 0.1)):
        value = 1 - spread * random.uniform(0.2, 1, (count, count)) * np.where(same, 0.4, 1)
        value = np.triu(value, 1) + np.triu(value, 1).T + np.eye(count)
        arrays[key] = value
    arrays["joint"] = arrays["activation"] * arrays["error"] * arrays["coupling"]
    arrays["stderr_sketch"] = 0.01 + 0.01 * (1 - arrays["joint"])
    arrays["stderr_sampling"] = 0.03 * (1 - arrays["joint"])
    arrays["separability_gap"] = random.uniform(0.3, 0.7, count)
    arrays["n_tokens"] = np.full(count, 2048)
    return arrays


def synthetic_run(
    folder: Path,
    *,
    seed: int = 0,
    status: str = "finished",
    error: str | None = None,
    smoke: bool = False,
    transfer: bool = True,
    num_features: int = 4096,
    overrides: list[str] | None = None,
    metrics: dict | None = None,
    model: str = "tiny-model",
    finished: str = "2026-01-01T00:10:00+00:00",
    job: str = "source_selection",
) -> Path:
    """One run folder; one that did not finish has neither metrics nor arrays."""
    folder.mkdir(parents=True)
    manifest = {
        "job": job,
        "command": f"python run.py seed={seed}",
        "config_hash": f"{seed:08x}{num_features:x}",
        "git_commit": "0" * 40,
        "git_dirty": False,
        "versions": {"numpy": "2.0"},
        "device": "cpu",
        "seed": seed,
        "smoke": smoke,
        "status": status,
        "error": error,
        "started": "2026-01-01T00:00:00+00:00",
        "finished": finished,
        "wall_seconds": 600.0,
        "peak_bytes": 2**30,
    }
    config = {
        "job": job,
        "seed": seed,
        "smoke": smoke,
        "model": {"name": model},
        "domains": {"name": "synthetic7"},
        "estimator": {"num_features": num_features, "exact_windows": 8},
        "transfer": {"mode": "full" if transfer else "none"},
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    if overrides is not None:
        (folder / ".hydra").mkdir()
        (folder / ".hydra" / "overrides.yaml").write_text(yaml.safe_dump(overrides))
    if status != "finished":
        return folder
    (folder / "arrays").mkdir()
    content = {
        "model": model,
        "domains": list(DOMAINS),
        "groups": DOMAINS,
        "n_tokens": 2048 * len(DOMAINS),
        "seed": seed,
        "seconds": {"sketch": 10.0, "transfer": 90.0},
        "note": "7 targets: the 95 % interval of Top-1 is 0.14 to 0.86 wide.",
        "sketch": {
            "spearman_joint": 0.96 + seed / 1000,
            "rmse_joint": 0.02,
            "spearman_coupling": 0.81,
            "state_bytes": 196608,
            "signature_bytes": 16384,
        },
    }
    if job == "source_selection":
        alignments = synthetic_alignments(seed)
        np.savez(folder / "arrays" / "alignments.npz", **alignments)
    if transfer and job == "source_selection":
        content |= {
            "random_top1": 1 / 6,
            "top1": {"joint": 4 / 7, "activation": 2 / 7, "error": 3 / 7, "mean_gradient": None},
            "top1_interval": {"joint": [1 / 7, 6 / 7], "activation": [0, 5 / 7], "error": [0.0, 6 / 7]},
            "top3": {"joint": 1.0, "activation": 5 / 7, "error": 6 / 7, "mean_gradient": 0.5},
            "mean_regret": {"joint": 0.004, "activation": 0.011, "error": 0.006, "mean_gradient": 0.01},
            "max_regret": {"joint": 0.012, "activation": 0.05, "error": 0.03, "mean_gradient": 0.04},
            "mean_spearman": {"joint": 0.6, "activation": 0.4, "error": 0.5, "mean_gradient": None},
        }
        random = np.random.default_rng(100 + seed)
        gain = 0.05 * alignments["joint"] + random.normal(0, 0.004, (2, len(DOMAINS), len(DOMAINS)))
        base = random.uniform(2, 3, len(DOMAINS))
        stored = {"gain": gain, "base_loss": base, "tuned_loss": base - gain}
        np.savez(folder / "arrays" / "transfer.npz", names=np.array(list(DOMAINS)), **stored)
    (folder / "metrics.json").write_text(json.dumps(content | (metrics or {})))
    return folder
