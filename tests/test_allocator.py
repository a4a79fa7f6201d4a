"""Memory that the process keeps."""

import subprocess
import sys

_FAULTS = """
import resource, torch
from experiments.allocator import keep_freed_memory
if {keep}:
    assert keep_freed_memory()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
torch.empty(1 << 24).fill_(1)
before = faults()
for _ in range(4):
    torch.empty(1 << 24).fill_(1)
print(faults() - before)
"""


def _faults(keep: bool) -> int:
    done = subprocess.run(
        [sys.executable, "-c", _FAULTS.format(keep=keep)], check=True, capture_output=True, text=True
    )
    return int(done.stdout)


def test_large_tensors_are_made_without_new_pages() -> None:
    # 64 MiB are 16,384 pages of 4 KiB; huge pages make the first number smaller, and the second is 0 anyway.
    assert _faults(keep=True) < 100 < _faults(keep=False)
