"""The rotation before rounding, and the joint alignment with its control variate."""

import pytest
import torch
from fisher_tasks import grouped_task, sketch_of

from fishersketch import SketchSpec, align, align_stream, exact_align
from fishersketch.controlled import controlled_influence, controlled_joint
from fishersketch.rotation import rotate, rotate_back


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 100, 4096])
def test_a_rotation_of_any_size_keeps_inner_products_and_goes_back(size):
    x, y = torch.randn(2, size, generator=torch.Generator().manual_seed(size), dtype=torch.float64)
    assert float(rotate(x) @ rotate(y)) == pytest.approx(float(x @ y), abs=1e-10)
    torch.testing.assert_close(rotate_back(rotate(x)), x, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("size", [1000, 1024])
def test_it_spreads_what_is_large(size):
    for place in (0, size // 2, size - 1):
        spike = torch.zeros(size, dtype=torch.float64)
        spike[place] = 1.0
        assert rotate(spike).abs().max() < 0.2
    tails = torch.randn(size, generator=torch.Generator().manual_seed(0), dtype=torch.float64) ** 3
    kurtosis = [float((v**4).mean() / (v**2).mean() ** 2) for v in (tails, rotate(tails))]
    assert kurtosis[0] > 8 and kurtosis[1] < 4


def test_four_bits_lose_less_than_the_draw_of_features():
    spec, tasks = SketchSpec(6, 10, 4096), [grouped_task(seed, samples=200) for seed in range(5)]
    sketches = [sketch_of(spec, task) for task in tasks]
    fine, coarse = (align([s.signature(kind) for s in sketches]).joint for kind in ("float32", "int4"))
    assert 0 < (coarse - fine).abs().max() < 0.02


def errors(tasks, m, seeds):
    """Differences to the exact joint alignment, with the control variate and without, (2, seeds, pairs)."""
    upper = tuple(torch.triu_indices(len(tasks), len(tasks), 1))
    truth = exact_align(tasks, "plain").joint[upper]
    found = []
    for seed in range(seeds):
        signatures = [sketch_of(SketchSpec(6, 10, m, seed=seed), task).signature() for task in tasks]
        tables = (align(signatures, "plain").joint, align_stream(signatures, "joint", "plain"))
        found.append(torch.stack([table[upper] - truth for table in tables]))
    return torch.stack(found, 1)


def test_the_control_variate_lowers_the_error_without_bias():
    controlled, alone = errors([grouped_task(seed, samples=400) for seed in range(4)], 1024, 40)
    rms = controlled.square().mean().sqrt()
    assert rms < 0.85 * alone.square().mean().sqrt()
    assert (controlled.mean(0).abs() < 4 * controlled.std(0) / 40**0.5 + 0.1 * rms).all()


def test_both_ways_to_compute_it_agree():
    generator = torch.Generator().manual_seed(0)
    names, m = ("joint", "activation", "error"), 50
    mine, theirs = (
        {name: 1 + torch.randn(rows, m, generator=generator, dtype=torch.float64) for name in names}
        for rows in (1, 6)
    )
    for streams in (mine, theirs):
        streams["separable"] = streams["activation"] * streams["error"]
        for name in streams:
            streams[name] = streams[name] / streams[name].norm(dim=1, keepdim=True)
    cosine = {name: mine[name] @ theirs[name].T for name in mine}
    joint, stderr = controlled_joint(mine, theirs, cosine)
    column, influence = controlled_influence(
        {name: rows[0] * m**0.5 for name, rows in mine.items()},
        {name: rows * m**0.5 for name, rows in theirs.items()},
        {name: values[0] for name, values in cosine.items()},
    )
    torch.testing.assert_close(column, joint[0])
    torch.testing.assert_close(influence.std(1) / m**0.5, stderr[0])
    assert not torch.allclose(column, cosine["joint"][0], atol=1e-3)
