"""Orders tasks by the interference that alignment predicts, and measures what is forgotten along the way."""

from dataclasses import dataclass
from math import factorial

import numpy as np
import torch

from experiments.config import Config
from experiments.domains.base import DomainSet
from experiments.draws import permutations
from experiments.errors import UserError
from experiments.exact import as_arrays
from experiments.facts import run_facts
from experiments.finetune import TransferConfig, with_train_windows
from experiments.options import option, register
from experiments.sequences.forgetting import forgetting_metrics
from experiments.sequences.training import Order, sequence_losses
from experiments.signatures import finite_domains, signatures_of
from experiments.store import Store
from fishersketch import align, align_stream, order_tasks, predicted_interference

_SCORED = ("joint", "activation", "error")


@register("settings", "continual")
@dataclass
class ContinualConfig:
    """Which orders are trained along."""

    random_orders: int = option(24, "Different random orders.", min=2)
    order_seed: int = option(0, "Draws the random orders.", min=0)
    recency: float = option(
        0.5, "How much less each task before the last one counts in predicted interference.", min=0.01, max=1
    )
    resamples: int = option(2000, "Draws of held-out windows and of orders, for the intervals.", min=100)


def run(cfg: Config, store: Store) -> None:
    """Sketches the tasks, chooses orders, trains along them and along random ones.

    Args:
        cfg: The run's configuration.
        store: Where results go.

    Raises:
        UserError: Nothing is fine-tuned, or there are fewer than three tasks or fewer orders than asked for.
    """
    settings: ContinualConfig = cfg.settings
    if not isinstance(cfg.transfer, TransferConfig) or cfg.transfer.mode not in ("lora", "full"):
        raise UserError("transfer: job=continual trains one model on task after task; choose lora or full")
    with store.timed("model"):
        loaded = cfg.model.build(torch.device(cfg.device))
    with store.timed("domains"):
        data: DomainSet = cfg.domains.build(loaded.tokenizer)
    with store.timed("sketch"):
        data = finite_domains(cfg.estimator, loaded, data, cfg.seed, store)
    count = len(data.domains)
    if count < 3:
        raise UserError(f"domains={data.name}: has {count} domains; a sequence needs at least 3")
    if settings.random_orders > factorial(count):
        raise UserError(
            f"settings.random_orders={settings.random_orders}: {count} domains have {factorial(count)} orders"
        )
    with store.timed("sketch"):
        signatures = signatures_of(cfg.estimator, loaded, data.domains, cfg.seed, store)
        table = align(signatures, cfg.estimator.self_terms)
    similar = {name: getattr(table, name) for name in _SCORED}
    if "mean_gradient" in cfg.estimator.extra_streams:
        similar["mean_gradient"] = align_stream(signatures, "mean_gradient", cfg.estimator.self_terms)
    chosen: dict[str, Order] = {
        name: tuple(order_tasks(matrix, settings.recency)) for name, matrix in similar.items()
    }
    # The order of most interference is that of least under the opposite likeness.
    chosen["joint_most"] = tuple(order_tasks(2 - similar["joint"], settings.recency))
    drawn = _random_orders(settings, count)
    orders = list(dict.fromkeys([*chosen.values(), *drawn]))
    tasks = with_train_windows(cfg.transfer, data.domains)
    with store.timed("sequences"):
        losses = sequence_losses(cfg.transfer, loaded, tasks, orders, store)
    predicted = {
        name: np.array([predicted_interference(matrix, order, settings.recency) for order in drawn])
        for name, matrix in similar.items()
    }
    labels = {"names": [task.name for task in tasks], "groups": [task.group for task in tasks]}
    store.write_arrays("alignments", **labels, **as_arrays(table))
    store.write_arrays(
        "continual",
        **labels,
        orders=orders,
        drawn=[orders.index(order) for order in drawn],
        base=losses.base,
        after=losses.after,
        final=losses.final,
        **{f"predicted_{name}": values for name, values in predicted.items()},
    )
    metrics = run_facts(cfg, data, table) | {
        "n": losses.base.size,
        "mode": cfg.transfer.mode,
        "n_seeds": len(cfg.transfer.seeds),
        "order": {name: [labels["names"][task] for task in order] for name, order in chosen.items()},
        "base_loss": losses.base.mean(),
        "learned": (losses.base[None] - losses.after).mean(),
    }
    metrics |= forgetting_metrics(losses, orders, chosen, drawn, predicted, settings.resamples)
    store.write_metrics(metrics | {"seconds": store.seconds})


def _random_orders(settings: ContinualConfig, count: int) -> list[Order]:
    """Returns different orders of ``range(count)``: the first so many that differ, of a sequence of draws."""
    found: dict[Order, None] = {}
    batch = 0
    while len(found) < settings.random_orders:
        label = f"continual orders {batch}"
        for row in permutations(label, settings.order_seed, settings.random_orders, count):
            found.setdefault(tuple(int(task) for task in row))
        batch += 1
    return list(found)[: settings.random_orders]
