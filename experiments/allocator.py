"""Keeps the memory of large tensors in the process, so that it is not asked for anew each time."""

import ctypes
import sys

_M_MMAP_MAX, _M_TRIM_THRESHOLD = -4, -1  # names and values of glibc's malloc.h
_KEPT_BYTES = 1 << 30


def keep_freed_memory() -> bool:
    """Has glibc keep up to 1 GiB of freed memory instead of giving it back to the kernel.

    By default every block of more than 32 MiB is mapped when it is made and unmapped when it is freed, and
    the kernel clears its pages each time. Logits over a vocabulary are such blocks: for a small model on a
    CPU those page faults can take as long as the model.

    Returns:
        Whether that was done; False where the C library is another one.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and bool(mallopt(_M_MMAP_MAX, 0) and mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES))
