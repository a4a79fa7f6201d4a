"""The error from the samples drawn: held against the spread over real re-draws of the samples."""

import pytest
import torch
from fisher_tasks import grouped_task

from fishersketch import FisherSketch, FisherSketchError, SketchSpec, align, stderr_sampling

SPEC = SketchSpec(4, 6, 128)


BASE = FisherSketch(SPEC)


def sketch(task, spec=SPEC, provenance=None):
    made = FisherSketch(spec, provenance)
    if spec == SPEC:
        made._projections = BASE._projections  # drawn once for the thousands of sketches here
    made.update(*task)
    return made


def draw(mixing, sequences, generator, length=3):
    """A task of known distribution: tokens of one sequence share a part of their activation and error."""
    shared = torch.randint(0, 2, (sequences, 1, 10), generator=generator).double() * 2 - 1
    own = torch.randint(0, 2, (sequences, length, 10), generator=generator).double() * 2 - 1
    values = ((0.7 * shared + 0.7 * own) @ mixing).flatten(0, 1)
    return values[:, :4], values[:, 4:], torch.arange(sequences).repeat_interleave(length)


def cut(task, rows):
    return [sketch(part) for part in zip(*(tensor.split(rows) for tensor in task), strict=True)]


def merged(blocks):
    whole = FisherSketch(SPEC)
    for block in blocks:
        whole.merge(block)
    return whole


@pytest.mark.parametrize("self_terms", ["split", "plain"])
@pytest.mark.parametrize("rows", [96, [48, 96, 96, 96, 192, 240]])
def test_it_is_the_spread_over_real_redraws(self_terms, rows):
    generator = torch.Generator().manual_seed(0)
    mixing = torch.randn(3, 10, 10, generator=generator, dtype=torch.float64)
    mixing[1] = 0.7 * mixing[0] + 0.3 * mixing[1]
    joint, stderr = [], []
    for _ in range(80):
        # 256 sequences of 3 tokens: a block of 96 rows is 32 whole ones, of both parities.
        blocks = [cut(draw(matrix, 256, generator), rows) for matrix in mixing]
        joint.append(align([merged(b).signature() for b in blocks], self_terms).joint)
        stderr.append(stderr_sampling(blocks, self_terms))
    spread = torch.stack(joint).std(0)
    claimed = torch.stack(stderr).square().mean(0).sqrt()
    for pair in ((0, 1), (0, 2), (1, 2)):
        assert 0.75 < claimed[pair] / spread[pair] < 1.35


def test_more_samples_lower_it_as_one_over_root_n():
    generator = torch.Generator().manual_seed(1)
    mixing = torch.randn(2, 10, 10, generator=generator, dtype=torch.float64)
    error = {
        n: torch.stack([
            stderr_sampling([cut(draw(matrix, n, generator), n // 8 * 3) for matrix in mixing])[0, 1]
            for _ in range(20)
        ]).median()
        for n in (128, 2048)
    }
    assert 2.8 < error[128] / error[2048] < 5.6


def test_equal_blocks_follow_the_formula():
    tasks = [grouped_task(seed, dim=4, classes=6) for seed in range(2)]
    blocks = [cut(task, 8) for task in tasks]
    whole = [merged(b).signature() for b in blocks]
    variance = 0.0
    for task in (0, 1):
        left_out = []
        for b in range(6):
            rest = merged(blocks[task][:b] + blocks[task][b + 1 :]).signature()
            left_out.append(float(align([rest, whole[1 - task]]).joint[0, 1]))
        values = torch.tensor(left_out, dtype=torch.float64)
        variance += 5 / 6 * float((values - values.mean()).square().sum())
    found = stderr_sampling(blocks)
    # float32 signatures against float64 sums
    assert float(found[0, 1]) == pytest.approx(variance**0.5, rel=1e-4)
    assert torch.equal(found, found.T) and bool((found.diagonal() == 0).all())


def test_what_it_refuses():
    task = grouped_task(0, dim=4, classes=6)
    blocks = cut(task, 8)
    for bad, message in (
        ([], "no tasks given"),
        ([blocks, blocks[:1]], "task 1 has 1 blocks"),
        ([blocks, [blocks[0], FisherSketch(SPEC)]], "task 1, block 1 holds no samples"),
        ([blocks, [blocks[0], sketch(task, SketchSpec(4, 6, 128, seed=1))]], "block 1 cannot be compared"),
        ([blocks, [blocks[0], sketch(task, provenance={"model": "b"})]], "block 1 cannot be compared"),
        ([cut(task, 4)[:2]], "task 0: without one of its blocks a half holds no samples"),
    ):
        with pytest.raises(FisherSketchError, match=message):
            stderr_sampling(bad)
    with pytest.raises(FisherSketchError, match="self_terms='whole'"):
        stderr_sampling([blocks, blocks], "whole")
