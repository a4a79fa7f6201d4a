"""The alignment of unrelated tasks: its closed form against real relabellings."""

import pytest
import torch
from fisher_tasks import grouped_task, sketch_of

from fishersketch import FisherSketchError, SketchSpec, align, exact_align, relabelled_joint


def spec_of(m, seed=0, streams=("weighted_activation",)):
    return SketchSpec(6, 10, m, seed=seed, extra_streams=streams)


@pytest.mark.parametrize("self_terms", ["split", "plain"])
def test_it_is_the_mean_over_relabellings(self_terms):
    first, second = grouped_task(0), grouped_task(1)
    assert first[1].sum(1).abs().max() < 1e-12  # softmax errors
    generator = torch.Generator().manual_seed(0)
    drawn = []
    for _ in range(300):
        order = torch.randperm(10, generator=generator)
        permuted = (second[0], second[1][:, order], second[2])
        drawn.append(exact_align([first, permuted], self_terms).joint[0, 1])
    drawn = torch.stack(drawn)
    spec = spec_of(40_000)
    found = relabelled_joint([sketch_of(spec, task).signature() for task in (first, second)], self_terms)
    assert float(found[0, 1]) == pytest.approx(
        float(drawn.mean()), abs=4 * float(drawn.std()) / 300**0.5 + 0.01
    )
    assert torch.isnan(found.diagonal()).all()
    torch.testing.assert_close(found[0, 1], found[1, 0], rtol=1e-12, atol=0)
    assert 0.02 < found[0, 1] < 0.9


def test_related_tasks_exceed_it_and_relabelled_ones_do_not():
    first = grouped_task(0)
    shuffled = (
        first[0],
        first[1][:, torch.randperm(10, generator=torch.Generator().manual_seed(3))],
        first[2],
    )
    signatures = [sketch_of(spec_of(8192), task).signature() for task in (first, first, shuffled)]
    excess = (align(signatures, "plain").joint - relabelled_joint(signatures, "plain")) / 0.05
    assert excess[0, 1] > 3 and excess[0, 2] < 0.7 * excess[0, 1]


def test_what_it_refuses():
    bare = sketch_of(spec_of(32, streams=()), grouped_task(0)).signature()
    with pytest.raises(FisherSketchError, match="no stream 'weighted_activation'"):
        relabelled_joint([bare])
    with pytest.raises(FisherSketchError, match="no signatures given"):
        relabelled_joint([])
    one = SketchSpec(6, 1, 32, extra_streams=("weighted_activation",))
    a, e, group = grouped_task(0)
    with pytest.raises(FisherSketchError, match="error_dim=1: relabelling needs two outputs"):
        relabelled_joint([sketch_of(one, (a, e[:, :1], group)).signature()])
