"""Runs one experiment: ``python run.py experiment=NAME``; ``--help`` lists what can be chosen and set."""

from experiments.huge_pages import ask_for_huge_pages
from experiments.same_sums import ask_for_same_sums

if __name__ == "__main__":
    ask_for_same_sums()
    ask_for_huge_pages()

from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from experiments.command_line import command, guarded, one_job
from experiments.config import discover, load, resolved
from experiments.devices import pick_device
from experiments.discovery import job
from experiments.store import Store


@hydra.main(version_base="1.3", config_path="conf", config_name="config")
def main(raw: DictConfig) -> None:
    """Runs one job into its run folder, then makes its tables and figures."""
    hydra_config = HydraConfig.get()
    sweep = hydra_config.mode == RunMode.MULTIRUN
    line = command(hydra_config.overrides.task, sweep)
    with one_job(sweep), Store(Path(hydra_config.runtime.output_dir), resolved(raw), line) as store:
        cfg = load(raw)
        cfg.device = pick_device(cfg.device, hydra_config.job.num if sweep else 0)
        store.record(device=cfg.device)
        cfg.logger.prepare()
        job(cfg.job)(cfg, store)
        store.finish()
        import analysis

        print(analysis.present(store.folder))
        cfg.logger.send(store.folder)


if __name__ == "__main__":
    with guarded():
        discover()
        main()
