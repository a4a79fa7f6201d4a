"""Settings of fine-tuning, its memory bound and its arithmetic."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
import yaml

from experiments.errors import UserError
from experiments.finetune import TransferConfig
from experiments.finetuning.losses import windows_at_once
from experiments.matmul import fast_float32, product_error
from experiments.options import build_typed, check
from tests.tiny_models import CPU


def test_blocks_are_bounded() -> None:
    assert windows_at_once(64, 49_152, CPU) == 21
    assert windows_at_once(2_048, 128_256, CPU) == 1
    assert windows_at_once(64, 49_152, torch.device("cuda")) == 85


def test_faster_products_are_accurate_and_the_setting_is_put_back() -> None:
    before = torch.get_float32_matmul_precision()
    assert before == "highest"
    with fast_float32(CPU) as faster:
        assert product_error() < 2e-6
        assert torch.get_float32_matmul_precision() == ("medium" if faster else "highest")
    with pytest.raises(KeyboardInterrupt), fast_float32(CPU):
        raise KeyboardInterrupt
    with fast_float32(torch.device("cuda")) as faster:
        assert not faster and torch.get_float32_matmul_precision() == before
    assert torch.get_float32_matmul_precision() == before


@pytest.mark.parametrize(
    "path",
    [p for p in sorted(Path("conf/transfer").glob("*.yaml")) if p.stem not in ("csv", "full_record")],
    ids=lambda path: path.stem,
)
def test_yaml_files_say_every_setting_their_mode_uses(path: Path) -> None:
    content = yaml.safe_load(path.read_text("utf-8"))
    cfg = build_typed(TransferConfig, {k: v for k, v in content.items() if k != "defaults"}, "transfer")
    assert cfg.mode == path.stem
    if cfg.mode != "none":
        assert content.keys() >= cfg.settings().keys() | {"seeds"}


def test_there_is_a_yaml_file_for_every_mode() -> None:
    names = {path.stem for path in Path("conf/transfer").glob("*.yaml")}
    assert names - {"csv", "full_record"} == {"full", "lora", "head", "none"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seeds": []}, r"transfer.seeds=\[\]: must be one seed or more"),
        ({"seeds": [1, 1]}, r"transfer.seeds=\[1, 1\]: must be one seed or more, each once"),
        ({"seeds": [-1]}, r"transfer.seeds=-1: must be at least 0"),
        ({"mode": "half"}, r"transfer.mode=half: must be one of full, lora, head, none"),
        ({"batch_windows": 0}, r"transfer.batch_windows=0: must be at least 1"),
    ],
)
def test_wrong_settings_are_refused(change: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        check(replace(TransferConfig(), **change), "transfer")
