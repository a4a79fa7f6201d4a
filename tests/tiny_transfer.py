"""Settings of the fine-tuning tests."""

from typing import Any

from experiments.finetune import TransferConfig

MODES = {"full": 3e-3, "lora": 1e-2, "head": 1e-2}


def config(mode: str, **changes: Any) -> TransferConfig:
    return TransferConfig(mode=mode, learning_rate=MODES.get(mode, 0.0), batch_windows=3, **changes)
