"""What was forgotten along orders of tasks, with intervals over held-out windows and random orders."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from experiments.draws import indices
from experiments.scoring.correlation import spearman
from experiments.sequences.training import Order, SequenceLosses


def forgetting(change: np.ndarray, orders: Sequence[Order]) -> np.ndarray:
    """Returns the mean change of loss (..., O) over all tasks but the last one of each order.

    Args:
        change: (..., O, T): loss at the end minus loss right after the task, in nats/token.
        orders: The O orders; a task that nothing follows has nothing to forget.
    """
    count = change.shape[-1]
    counted = np.ones((len(orders), count))
    counted[np.arange(len(orders)), [order[-1] for order in orders]] = 0
    return (change * counted).sum(axis=-1) / (count - 1)


def forgetting_metrics(
    losses: SequenceLosses,
    orders: Sequence[Order],
    chosen: dict[str, Order],
    drawn: Sequence[Order],
    predicted: dict[str, np.ndarray],
    resamples: int,
) -> dict[str, Any]:
    """Holds chosen orders against random ones.

    A resample draws every task's held-out windows, the same for all orders, and the random orders, each with
    replacement (percentile bootstrap, 95 %).

    Args:
        losses: Along all orders.
        orders: The O orders of the losses.
        chosen: Order by the score that chose it.
        drawn: The R random orders.
        predicted: Predicted interference (R,) of the random orders, by score.
        resamples: Number of resamples.

    Returns:
        ``forgetting`` and ``final_loss`` by name, ``random`` being the mean over the random orders, each with
        ``_interval`` and, for the chosen orders, ``_against_random``; ``share_better``, the share of random
        orders that forget less; ``spearman`` of predicted interference with forgetting.
    """
    places = {order: place for place, order in enumerate(orders)}
    at = {name: places[order] for name, order in chosen.items()}
    pool = np.array([places[order] for order in drawn])
    change = losses.final - losses.after  # (O, T, W)
    windows = change.shape[-1]
    picked = indices("continual windows", 0, (resamples, change.shape[1], windows), windows)  # (B, T, W)
    draws = pool[indices("continual orders", 0, (resamples, len(pool)), len(pool))]  # (B, R)
    found: dict[str, Any] = {}
    measured: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for name, values in (("forgetting", change), ("final_loss", losses.final)):
        again = np.stack([_resampled(row, picked) for row in values], axis=1)  # (B, O, T)
        if name == "forgetting":
            mean, spread = forgetting(values.mean(-1), orders), forgetting(again, orders)
        else:
            mean, spread = values.mean((-2, -1)), again.mean(-1)
        measured[name] = mean, spread
        at_random = np.take_along_axis(spread, draws, axis=1).mean(axis=1)  # (B,)
        found[name] = {key: mean[place] for key, place in at.items()} | {"random": mean[pool].mean()}
        found[f"{name}_interval"] = {key: _ends(spread[:, place]) for key, place in at.items()} | {
            "random": _ends(at_random)
        }
        found[f"{name}_against_random"] = {
            key: {
                "mean": mean[place] - mean[pool].mean(),
                "interval": _ends(spread[:, place] - at_random),
            }
            for key, place in at.items()
        }
    mean, spread = measured["forgetting"]
    found["random_orders"] = {"least": mean[pool].min(), "most": mean[pool].max(), "count": len(pool)}
    found["share_better"] = {key: (mean[pool] < mean[place]).mean() for key, place in at.items()}
    found["spearman"] = {name: spearman(values, mean[pool]) for name, values in predicted.items()}
    order_of = {place: number for number, place in enumerate(pool)}
    found["spearman_interval"] = {
        name: _ends(
            np.array([
                spearman(values[[order_of[p] for p in row]], spread[b, row]) for b, row in enumerate(draws)
            ])
        )
        for name, values in predicted.items()
    }
    return found


def _resampled(values: np.ndarray, picked: np.ndarray) -> np.ndarray:
    """Returns means (B, T) of values (T, W) over the windows (B, T, W)."""
    return np.take_along_axis(values[None], picked, axis=2).mean(axis=-1)


def _ends(values: np.ndarray) -> list[float]:
    low, high = np.quantile(values, [0.025, 0.975])
    return [float(low), float(high)]
