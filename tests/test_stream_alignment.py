"""Alignments of single streams: against the exact values, from halves, through files, and what is refused."""

import pytest
import torch
from fisher_tasks import grouped_task, sketch_of

from fishersketch import FisherSketchError, SketchSpec, TaskSignature, align, align_stream, exact_align
from fishersketch.baselines import exact_mean_gradient_cosines

EXTRA = ("mean_gradient", "unit_joint")
every_kind = pytest.mark.parametrize("self_terms", ["split", "plain"])


def tasks(length=4):
    return [grouped_task(seed, samples=64, length=length) for seed in range(4)]


def signatures_of(given, m=64, projection="rademacher", seed=0):
    spec = SketchSpec(6, 10, m, projection, seed=seed, extra_streams=EXTRA)
    return [sketch_of(spec, task).signature() for task in given]


def unit_length(task):
    a, e, group = task
    return a / a.norm(dim=1, keepdim=True), e / e.norm(dim=1, keepdim=True), group


@every_kind
def test_streams_of_every_signature_are_what_align_gives(self_terms):
    signatures = signatures_of(tasks())
    table = align(signatures, self_terms)
    for name in ("activation", "error"):
        assert torch.equal(align_stream(signatures, name, self_terms), getattr(table, name))
    # align corrects the joint cosine by a control variate; the plain one is what the coupling rests on.
    joint = align_stream(signatures, "joint", self_terms)
    assert not torch.equal(joint, table.joint)
    assert (joint - table.joint).abs().max() < 0.3


@every_kind
def test_unit_joint_tends_to_the_exact_alignment_of_samples_of_unit_length(self_terms):
    exact = exact_align([unit_length(task) for task in tasks()], self_terms).joint
    error = align_stream(signatures_of(tasks(), m=40_000), "unit_joint", self_terms) - exact
    assert error.abs().max() < 0.03
    assert (exact_align(tasks(), self_terms).joint - exact).abs().max() > 0.06  # another quantity


def test_mean_gradient_tends_to_the_exact_cosine_and_keeps_its_sign():
    given = tasks()
    given[3] = (given[0][0], -given[0][1], given[0][2])
    exact = exact_mean_gradient_cosines([task[:2] for task in given])
    sketched = align_stream(signatures_of(given, m=40_000), "mean_gradient", "plain")
    assert (sketched - exact).abs().max() < 0.03
    assert float(sketched[0, 3]) == pytest.approx(-1, abs=1e-6)
    assert float(align_stream(signatures_of(given), "joint", "plain")[0, 3]) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("name", EXTRA)
def test_split_self_terms_are_products_of_the_halves(name):
    task = grouped_task(0, samples=64)
    signature, m = signatures_of([task])[0], 64
    halves = []
    for parity in (0, 1):
        kept = task[2] % 2 == parity
        half = tuple(part[kept] for part in task)
        halves.append(signatures_of([half])[0].stream(name))
    expected = float(halves[0] @ halves[1]) / m
    assert signature.extra_self_terms["split"][name] == pytest.approx(expected, rel=1e-6)
    whole = signature.stream(name)
    assert signature.extra_self_terms["plain"][name] == pytest.approx(float(whole @ whole) / m, rel=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "int4"])
def test_self_terms_of_streams_survive_a_file_in_a_header_below_1_kib(dtype, tmp_path):
    spec = SketchSpec(576, 49152, 4096, extra_streams=EXTRA)
    a, e = torch.ones(2, 576), torch.ones(2, 49152)
    e[1, :5000] *= -0.123456789
    provenance = {"model": "0123456789abcdef", "tokenizer": "0123456789abcdef", "label_mode": "data"}
    sketch_of(spec, (a, e, torch.arange(2)), provenance=provenance).signature(dtype).save(tmp_path / "task")
    size = (tmp_path / "task").stat().st_size
    payload = 5 * {"float32": 16384, "int4": 2048}[dtype]
    assert size - payload < 1024 + 600  # and safetensors' own table of five tensors
    loaded = TaskSignature.load(tmp_path / "task")
    assert loaded.extra_self_terms.keys() == {"plain", "split"}
    assert loaded.extra_self_terms["split"].keys() == set(EXTRA)


def test_a_self_term_that_is_not_positive_leaves_nan():
    task = grouped_task(0, samples=64)
    sign = torch.where(task[2] % 2 == 0, 1.0, -1.0)[:, None]
    apart = (task[0].abs(), task[1].abs() * sign, task[2])  # the halves' mean gradients oppose each other
    found = align_stream(signatures_of([apart, grouped_task(1)]), "mean_gradient")
    assert torch.isnan(found[0]).all() and float(found[1, 1]) == 1


def test_what_cannot_be_aligned_is_refused():
    signatures = signatures_of(tasks())
    with pytest.raises(FisherSketchError, match="no signatures given"):
        align_stream([], "joint")
    with pytest.raises(FisherSketchError, match="no stream 'gradient'.*unit_joint"):
        align_stream(signatures, "gradient")
    with pytest.raises(FisherSketchError, match="signatures 0 and 1 cannot be compared: .*seed"):
        align_stream([signatures[0], signatures_of(tasks(), seed=1)[0]], "joint")
    with pytest.raises(FisherSketchError, match="self_terms='half': must be one of split, plain"):
        align_stream(signatures, "unit_joint", "half")
    with pytest.raises(FisherSketchError, match="ask for self_terms='plain'"):
        align_stream(signatures_of([grouped_task(0, length=64)]), "unit_joint")
