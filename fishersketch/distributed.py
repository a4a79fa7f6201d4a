"""One sketch from the workers of torch.distributed."""

import torch
from torch import distributed

from fishersketch.errors import FisherSketchError
from fishersketch.sketch import FisherSketch
from fishersketch.sketch_file import from_bytes, to_bytes


def merge_ranks(sketch: FisherSketch, process_group: distributed.ProcessGroup | None = None) -> FisherSketch:
    """Merges the sketches that the ranks made of their shards of one task; every rank gets the whole.

    Ranks meet here alone and not in `FisherSketch.update`, so shards may differ in length and a rank may have
    none. States are merged in the order of the ranks, so the result has the same bits on all of them and
    differs from one process's in the order of float64 sums. Number sequences over all shards (`group`), as
    their parity is their half.

    Args:
        sketch: this rank's; not changed.
        process_group: the ranks; None for all. Under NCCL the states travel through the current CUDA device.

    Returns:
        A new sketch of all ranks' samples.

    Raises:
        FisherSketchError: there is no process group, or a rank's sketch has another spec or provenance; says
            which and in what, on every rank.
    """
    if not (distributed.is_available() and distributed.is_initialized()):
        raise FisherSketchError(
            "no process group: call torch.distributed.init_process_group first, as under torchrun"
        )
    states = _gathered(to_bytes(sketch), process_group)
    whole = from_bytes(states[0])
    for rank, state in enumerate(states[1:], 1):
        try:
            whole.merge(from_bytes(state))
        except FisherSketchError as error:
            raise FisherSketchError(f"rank {rank} against rank 0: {error}") from error
    return whole


def _gathered(data: bytes, process_group: distributed.ProcessGroup | None) -> list[bytes]:
    """Returns every rank's bytes, as tensors: object collectives would unpickle what other ranks send."""
    nccl = distributed.get_backend(process_group) == "nccl"
    device = torch.device("cuda", torch.cuda.current_device()) if nccl else torch.device("cpu")
    count = distributed.get_world_size(process_group)
    mine = torch.frombuffer(bytearray(data), dtype=torch.uint8).to(device)
    lengths = [torch.zeros(1, dtype=torch.int64, device=device) for _ in range(count)]
    distributed.all_gather(lengths, torch.tensor([len(mine)], device=device), group=process_group)
    longest = max(int(length) for length in lengths)
    padded = torch.zeros(longest, dtype=torch.uint8, device=device)
    padded[: len(mine)] = mine
    found = [torch.empty_like(padded) for _ in range(count)]
    distributed.all_gather(found, padded, group=process_group)
    return [part[: int(length)].cpu().numpy().tobytes() for part, length in zip(found, lengths, strict=True)]
