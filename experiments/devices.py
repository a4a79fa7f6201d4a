"""Which device a run computes on."""

import re

from experiments.errors import UserError


def pick_device(name: str, job: int = 0) -> str:
    """Resolves the name of a device.

    Args:
        name: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.
        job: Number of the job in its sweep: with ``auto`` the jobs take turns at the GPUs.

    Returns:
        ``cpu`` or ``cuda:N``.

    Raises:
        UserError: For another name, or a GPU that torch does not see.
    """
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", name):
        raise UserError(f"device={name}: must be auto, cpu, cuda or cuda:N")
    import torch

    count = torch.cuda.device_count()
    if name == "cpu" or (name == "auto" and count == 0):
        return "cpu"
    index = job % count if name == "auto" else int(name.partition(":")[2] or 0)
    if index >= count:
        raise UserError(
            f"device={name}: torch sees {count or 'no'} CUDA device{'s'[: count != 1]}; use device=cpu"
        )
    return f"cuda:{index}"
