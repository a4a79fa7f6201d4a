"""Huge pages for large tensors."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

_SYSTEM = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_PROGRAM = """
import os, resource, sys
from experiments.huge_pages import ask_for_huge_pages
ask_for_huge_pages()
import torch
torch.empty(1 << 24).fill_(1)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(4):
    torch.empty(1 << 24).fill_(1)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before, *sys.argv[1:])
"""


def _run(environment: dict[str, str]) -> tuple[int, list[str]]:
    found = {key: value for key, value in os.environ.items() if key != "GLIBC_TUNABLES"} | environment
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, "an argument", "key=[1, 2]"],
        check=True,
        capture_output=True,
        text=True,
        env=found,
    )
    faults, rest = done.stdout.strip().split(" ", 1)
    return int(faults), [rest]


@pytest.mark.skipif(
    not _SYSTEM.exists() or "[madvise]" not in _SYSTEM.read_text(), reason="nothing is to be asked for"
)
def test_large_tensors_take_few_page_faults() -> None:
    # Four tensors of 64 MiB are 65,536 pages of 4 KiB, or 128 of 2 MiB.
    faults, arguments = _run({})
    assert arguments == ["an argument key=[1, 2]"]
    assert faults < 8_000


def test_a_setting_of_the_user_stays() -> None:
    faults, _ = _run({"GLIBC_TUNABLES": "glibc.malloc.hugetlb=0"})
    assert faults > 8_000 or "[always]" in _SYSTEM.read_text("utf-8")
