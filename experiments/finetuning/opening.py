"""Opens a model for fine-tuning as a configuration says."""

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from experiments.finetuning.base import Tunable
from experiments.finetuning.full import full
from experiments.finetuning.head import head
from experiments.finetuning.lora import lora
from experiments.finetuning.precision import MixedPrecision
from experiments.matmul import fast_float32
from experiments.models.base import LoadedModel


@contextmanager
def opened(cfg: Any, loaded: LoadedModel) -> Generator[Tunable, None, None]:
    """Opens a model for fine-tuning and leaves it as it was.

    Args:
        cfg: A `TransferConfig`.
        loaded: A causal language model.

    Yields:
        The tunable model; with ``mode=none`` the whole model, to be scored.

    Raises:
        UserError: When the model cannot be fine-tuned in this mode.
    """
    mode: AbstractContextManager[Tunable]
    if cfg.mode == "lora":
        mode = lora(loaded.model, loaded.device, cfg.lora_rank, cfg.lora_alpha)
    elif cfg.mode == "head":
        mode = head(loaded.model, loaded.device)
    else:
        mode = full(loaded.model, loaded.name)
    with fast_float32(loaded.device), mode as tunable:
        yield MixedPrecision(tunable, loaded.device) if cfg.precision == "bfloat16" else tunable
