"""What may be done to samples without changing an alignment, on tasks and trees that hypothesis draws."""

import pytest
import torch
from fisher_tasks import grouped_task, relative_difference, sketch_of
from hypothesis import given, settings
from hypothesis import strategies as st

from fishersketch import FisherSketch, SketchSpec, align, exact_align

PROJECTIONS = ("rademacher", "hadamard", "block_hadamard")
MEASURES = ("joint", "activation", "error", "coupling")
every_projection = pytest.mark.parametrize("projection", PROJECTIONS)
drawn = settings(max_examples=8, deadline=None, derandomize=True, database=None)
powers = st.integers(-30, 30).map(lambda power: 2.0**power)
factors = st.floats(1e-6, 1e6) | st.floats(-1e6, -1e-6)


@st.composite
def tasks_of_any_size(draw, fewest=2):
    """Up to three tasks of one head, of several sequences each."""
    dim, words, length = draw(st.integers(1, 9)), draw(st.integers(2, 40)), draw(st.integers(1, 4))
    seeds = draw(st.lists(st.integers(0, 999), min_size=fewest, max_size=3, unique=True))
    return [grouped_task(seed, draw(st.integers(2, 4)) * 2 * length, dim, words, length) for seed in seeds]


def spec_of(task, projection="block_hadamard", m=48, **others):
    return SketchSpec(task[0].shape[1], task[1].shape[1], m, projection, **others)


def assert_equal(found, truth, tolerance):
    for name in MEASURES:
        torch.testing.assert_close(
            getattr(found, name), getattr(truth, name), rtol=tolerance, atol=tolerance, equal_nan=True
        )


@drawn
@given(tasks=tasks_of_any_size(), data=st.data())
def test_scale_of_activations_and_errors(tasks, data):
    scaled = [(a * data.draw(factors), e * data.draw(factors), group) for a, e, group in tasks]
    for self_terms in ("plain", "split"):
        assert_equal(exact_align(scaled, self_terms), exact_align(tasks, self_terms), 1e-9)
    before, after = (
        align([sketch_of(spec_of(task), task).signature() for task in given], "plain")
        for given in (tasks, scaled)
    )
    # Signatures hold float32.
    assert_equal(after, before, 2e-5)


@every_projection
@drawn
@given(tasks=tasks_of_any_size(1), of_a=powers, of_e=powers)
def test_powers_of_two_scale_the_sums_to_the_last_bit(projection, tasks, of_a, of_e):
    for unit in ("token", "sequence"):
        spec = spec_of(tasks[0], projection, sample_unit=unit)
        a, e, group = tasks[0]
        sums, scaled = (
            sketch_of(spec, task).state()[0]["sums"] for task in ((a, e, group), (a * of_a, e * of_e, group))
        )
        joint, one, other = (of_a * of_e) ** 2, of_a**2, of_e**2
        if unit == "sequence":
            one = other = joint
        expected = sums * torch.tensor([joint, one, other], dtype=torch.float64)[:, None]
        assert torch.equal(scaled, expected)


@drawn
@given(tasks=tasks_of_any_size(), seed=st.integers(0, 999))
def test_the_exact_alignment_forgets_the_order_of_the_vocabulary(tasks, seed):
    words = torch.randperm(tasks[0][1].shape[1], generator=torch.Generator().manual_seed(seed))
    turned = [(a, e[:, words], group) for a, e, group in tasks]
    for unit in ("token", "sequence"):
        for self_terms in ("plain", "split"):
            found, truth = (exact_align(given, self_terms, unit) for given in (turned, tasks))
            assert_equal(found, truth, 1e-9)


@every_projection
def test_an_order_of_the_vocabulary_is_another_draw_of_features(projection):
    # A sketch of permuted errors is not that of the errors: its error comes from the same distribution.
    first, second = (grouped_task(seed, 64, classes=40) for seed in (0, 1))
    truth = float(exact_align([first, second], "plain").joint[0, 1])
    errors, scores = {"as it is": [], "permuted": []}, []
    for seed in range(60):
        words = torch.randperm(40, generator=torch.Generator().manual_seed(seed))
        spec = spec_of(first, projection, m=256, seed=seed)
        for name, order in (("as it is", torch.arange(40)), ("permuted", words)):
            made = [sketch_of(spec, (a, e[:, order], g)).signature() for a, e, g in (first, second)]
            table = align(made, "plain")
            errors[name].append(float(table.joint[0, 1]) - truth)
        scores.append(errors["permuted"][-1] / float(table.stderr_sketch[0, 1]))
    plain, permuted = (torch.tensor(values, dtype=torch.float64) for values in errors.values())
    assert (permuted - plain).abs().min() > 0
    spread = permuted.std()
    # A cosine of means has a bias of the order of its variance; five standard errors hold both.
    assert abs(permuted.mean()) < 5 * spread / 60**0.5 + spread**2
    assert 0.7 < spread / plain.std() < 1.4
    assert 0.7 < torch.tensor(scores).std() < 1.4


@every_projection
@drawn
@given(data=st.data())
def test_any_tree_of_merges_is_one_pass(projection, data):
    unit = data.draw(st.sampled_from(["token", "sequence"]))
    (task,) = data.draw(tasks_of_any_size(1).map(lambda tasks: tasks[:1]))
    spec = spec_of(task, projection, sample_unit=unit)
    count = int(task[2][-1]) + 1
    cuts = sorted(data.draw(st.sets(st.integers(1, count - 1), max_size=8)))
    nodes = []
    for start, stop in zip([0, *cuts], [*cuts, count], strict=True):
        kept = (task[2] >= start) & (task[2] < stop)
        nodes.append(sketch_of(spec, [part[kept] for part in task]))
    nodes.insert(data.draw(st.integers(0, len(nodes))), FisherSketch(spec))  # a worker that saw nothing
    while len(nodes) > 1:
        node = nodes.pop(data.draw(st.integers(0, len(nodes) - 1)))
        nodes[data.draw(st.integers(0, len(nodes) - 1))].merge(node)
    whole = sketch_of(spec, task)
    assert relative_difference(nodes[0], whole) <= 1e-12
    assert nodes[0].num_samples == whole.num_samples and nodes[0].num_tokens == whole.num_tokens
    assert nodes[0].signature().num_samples == whole.signature().num_samples


@drawn
@given(tasks=tasks_of_any_size(), copies=st.lists(st.integers(1, 3), min_size=3, max_size=3))
def test_copies_of_the_data_change_nothing(tasks, copies):
    # Copies keep the parity of their sequences, so that halves stay what they are.
    repeated = []
    for (a, e, group), count in zip(tasks, copies, strict=False):
        step = 2 * (int(group[-1]) // 2 + 1)
        numbers = torch.cat([group + step * copy for copy in range(count)])
        repeated.append((a.repeat(count, 1), e.repeat(count, 1), numbers))
    for unit in ("token", "sequence"):
        for self_terms in ("plain", "split"):
            found, truth = (exact_align(given, self_terms, unit) for given in (repeated, tasks))
            assert_equal(found, truth, 1e-9)
        spec = spec_of(tasks[0], sample_unit=unit)
        for task, more, count in zip(tasks, repeated, copies, strict=False):
            once, often = (sketch_of(spec, given).state()[0] for given in (task, more))
            assert torch.equal(often["counts"], once["counts"] * count)
            torch.testing.assert_close(often["sums"] / count, once["sums"], rtol=1e-11, atol=1e-11)
