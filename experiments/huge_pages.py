"""Huge pages for large tensors on Linux."""

import os
import sys
from pathlib import Path

_SYSTEM = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_TUNABLE = "glibc.malloc.hugetlb=1"


def ask_for_huge_pages() -> None:
    """Starts the program anew with huge pages for large tensors, where they have to be asked for.

    glibc maps every block of more than 32 MiB when it is made and unmaps it when it is freed, and the kernel
    clears its pages each time, 4 KiB by 4 KiB. Logits over a vocabulary are such blocks: for a small model on
    a CPU those page faults can take as long as the model. glibc asks for huge pages if its tunable says so
    when the process starts, so this has to come first. Nothing happens where the kernel gives them to all or
    to nobody, nor where ``GLIBC_TUNABLES`` is set, to this or to anything else.
    """
    if "GLIBC_TUNABLES" in os.environ or not _SYSTEM.exists() or "[madvise]" not in _SYSTEM.read_text():
        return
    os.environ["GLIBC_TUNABLES"] = _TUNABLE
    os.execv(sys.executable, sys.orig_argv)
