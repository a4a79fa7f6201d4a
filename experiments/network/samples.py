"""The samples whose gradients are compared: windows of text domains, or images of tasks."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from experiments.config import Config
from experiments.domains.base import DomainSet
from experiments.errors import UserError
from experiments.models.base import LoadedModel
from experiments.tensors import digest
from experiments.validation.terms import check_model
from fishersketch.head import output_head

Sample = tuple[dict[str, Any], Tensor]


@dataclass(frozen=True)
class SampledTask:
    """One task.

    Attributes:
        name: Name in tables and figures.
        group: Group that it belongs to.
        samples: (inputs, labels) of one row each.
        digest: Hash of what the samples hold.
    """

    name: str
    group: str
    samples: list[Sample]
    digest: str


def text_tasks(cfg: Config, loaded: LoadedModel, data: DomainSet) -> list[SampledTask]:
    """Returns the first sketch windows of each domain.

    Raises:
        UserError: A domain has fewer.
    """
    count, tasks = cfg.settings.samples, []
    for domain in data.domains:
        if len(domain.sketch) < count:
            raise UserError(
                f"settings.samples={count}: {domain.name} has {len(domain.sketch)} windows; raise "
                "domains.sketch_windows, or lower it"
            )
        windows = domain.sketch[:count].to(loaded.device)
        samples: list[Sample] = [
            ({"input_ids": row[None], "attention_mask": torch.ones_like(row[None])}, row[None])
            for row in windows
        ]
        tasks.append(SampledTask(domain.name, domain.group, samples, digest(domain.sketch[:count])))
    return tasks


def image_tasks(cfg: Config, loaded: LoadedModel) -> list[SampledTask]:
    """Returns the first images of each task.

    Raises:
        UserError: A task has fewer, or the model's outputs are not their classes.
    """
    count, tasks = cfg.settings.samples, []
    given = cfg.domains.build_images().tasks
    model = check_model(cfg.estimator, loaded, given)
    for task in given:
        if len(task.images) < count:
            raise UserError(
                f"settings.samples={count}: {task.name} has {len(task.images)} images; raise domains.images, "
                "or lower it"
            )
        samples: list[Sample] = [
            (model.inputs(task.images[n : n + 1]), task.labels[n : n + 1].to(loaded.device))
            for n in range(count)
        ]
        tasks.append(SampledTask(task.name, task.group, samples, digest(task.images[:count])))
    return tasks


def untie(loaded: LoadedModel) -> None:
    """Gives the head a weight of its own where it shares the embedding's, and lets gradients through.

    A shared weight would be one block with two uses, and the head's gradient no block of the network's.
    """
    head = output_head(loaded.model)
    tables = [module for module in loaded.model.modules() if isinstance(module, torch.nn.Embedding)]
    if any(table.weight is head.weight for table in tables):
        head.weight = torch.nn.Parameter(head.weight.detach().clone())
    loaded.model.requires_grad_(True)


def head_name(loaded: LoadedModel) -> str:
    """Returns the dotted name of the output head."""
    head = output_head(loaded.model)
    return next(name for name, module in loaded.model.named_modules() if module is head)
