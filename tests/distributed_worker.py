"""One worker of a torchrun: sketches its shard of a task and merges; rank 0 saves the whole."""

import sys

from fisher_tasks import grouped_task, sketch_of
from torch import distributed

from fishersketch import FisherSketch, FisherSketchError, SketchSpec, merge_ranks


def main(folder: str, case: str) -> None:
    distributed.init_process_group("gloo")
    try:
        work(folder, case)
        distributed.barrier()  # none leaves while another still talks to it
    finally:
        distributed.destroy_process_group()


def work(folder: str, case: str) -> None:
    rank, count = distributed.get_rank(), distributed.get_world_size()
    seed = rank if case == "other seeds" else 0
    spec = SketchSpec(6, 10, 64, seed=seed)
    task = grouped_task(0)
    if case == "one has all":
        sketch = sketch_of(spec, task, batch=8) if rank == 1 else FisherSketch(spec)
    else:
        # Rank 0 has every third sequence, rank 1 the others: twice as many updates.
        mine = (task[2] % 3 == 0) == (rank == 0)
        sketch = sketch_of(spec, tuple(part[mine] for part in task), batch=4)
    try:
        whole = merge_ranks(sketch)
    except FisherSketchError as error:
        print(f"rank {rank} of {count}: {error}")
        return
    whole.save(f"{folder}/rank{rank}.sketch")


if __name__ == "__main__":
    main(*sys.argv[1:])
