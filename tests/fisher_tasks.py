"""Small tasks of activations, softmax errors and sequence numbers, as the tests of the core use them."""

import torch
from baseline_tasks import make_task

from fishersketch import FisherSketch

STREAMS = ("joint", "activation", "error")


def grouped_task(seed, samples=48, dim=6, classes=10, length=4, dtype=torch.float64):
    """Activations (n, d), errors (n, K) and the sequence of each row (n,)."""
    activations, errors, _ = make_task(seed, samples, dim, classes)
    return activations.to(dtype), errors.to(dtype), torch.arange(samples) // length


def sketch_of(spec, task, batch=None, provenance=None):
    """The sketch of a task, fed whole or in batches of rows."""
    sketch = FisherSketch(spec, provenance)
    for chunk in zip(*(part.split(batch or len(task[0])) for part in task), strict=True):
        sketch.update(*chunk)
    return sketch


def relative_difference(first, second):
    """The largest norm-wise difference between two sketches' sums of any half and stream."""
    mine, theirs = first.state()[0]["sums"], second.state()[0]["sums"]
    return float(((mine - theirs).norm(dim=2) / theirs.norm(dim=2).clamp_min(1e-300)).max())
