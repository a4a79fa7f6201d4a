"""Small tasks with a softmax head, as the baselines' tests use them."""

import torch

DIM, CLASSES = 6, 11


def make_task(seed, samples=40, dim=DIM, classes=CLASSES, head_seed=0):
    """Activations (n, d), errors (n, K) and labels (n,) of a task, one head for all tasks, float64."""
    head = torch.randn(classes, dim, generator=torch.Generator().manual_seed(head_seed), dtype=torch.float64)
    generator = torch.Generator().manual_seed(1000 + seed)
    direction = torch.randn(dim, generator=generator, dtype=torch.float64)
    activations = direction + torch.randn(samples, dim, generator=generator, dtype=torch.float64)
    probabilities = torch.softmax(activations @ head.T, 1)
    labels = torch.multinomial((probabilities + 0.2).float(), 1, generator=generator).flatten()
    return activations, probabilities - torch.nn.functional.one_hot(labels, classes), labels


def make_pair(seed, samples=30, dims=(7, 5)):
    """Two related representations (n, d) and (n, d') of the same samples, float64."""
    generator = torch.Generator().manual_seed(seed)
    first = torch.randn(samples, dims[0], generator=generator, dtype=torch.float64) + 2
    mix = torch.randn(*dims, generator=generator, dtype=torch.float64)
    second = first @ mix + torch.randn(samples, dims[1], generator=generator, dtype=torch.float64)
    return first, second


def orthogonal(dim, seed=0):
    """A random orthogonal matrix (d, d)."""
    generator = torch.Generator().manual_seed(seed)
    return torch.linalg.qr(torch.randn(dim, dim, generator=generator, dtype=torch.float64)).Q


def collect(collector, task, batch=1000):
    """The collector's summary of a task, fed in chunks."""
    for chunk in zip(*(part.split(batch) for part in task), strict=True):
        collector.update(*chunk)
    return collector.summary()
