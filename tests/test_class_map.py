"""Errors whose columns stand in another order, or are some of the shared ones."""

import pytest
import torch

from fishersketch import exact_align
from fishersketch.class_map import map_classes, match_classes
from fishersketch.errors import FisherSketchError


def task(seed: int):
    generator = torch.Generator().manual_seed(seed)
    activations = torch.randn(40, 3, generator=generator, dtype=torch.float64)
    weight = torch.randn(3, 6, generator=generator, dtype=torch.float64)
    labels = torch.randint(0, 6, (40,), generator=generator)
    errors = (activations @ weight).softmax(1) - torch.nn.functional.one_hot(labels, 6)
    return activations, errors, torch.arange(40)


def test_a_map_restores_the_exact_alignment_of_tasks_in_another_order():
    names = ["ant", "bee", "cat", "dog", "elk", "fox"]
    order = [4, 2, 0, 5, 1, 3]
    own = [names[place] for place in order]
    activations, errors, group = task(0)
    shuffled = errors[:, order]
    restored = map_classes(shuffled, match_classes(own, names), 6)
    assert torch.equal(restored, errors)
    lost, found = (
        exact_align([task(0), (activations, e, group)], self_terms="plain") for e in (shuffled, restored)
    )
    assert float(found.joint[0, 1]) == pytest.approx(1, abs=1e-12)
    assert lost.joint[0, 1] < 0.95 and lost.error[0, 1] < 0.95
    assert float(lost.activation[0, 1]) == pytest.approx(1, abs=1e-12)


def test_a_task_with_some_of_the_classes_has_zeros_for_the_others():
    errors = torch.tensor([[1.0, -1.0], [0.5, -0.5]])
    mapped = map_classes(errors, match_classes(["c", "a"], ["a", "b", "c"]), 3)
    assert mapped.tolist() == [[-1.0, 0.0, 1.0], [-0.5, 0.0, 0.5]]


@pytest.mark.parametrize(
    ("class_map", "line"),
    [
        ([0], r"^class_map has 1 classes and errors have shape \(2, 3\): expected \(N, 1\)$"),
        ([0, 1, 4], r"^class_map holds 4: must be from 0 to 3$"),
        ([0, 1, -1], r"^class_map holds -1: must be from 0 to 3$"),
        ([2, 1, 2], r"^class_map sends two outputs to class 2: each needs a class of its own$"),
    ],
)
def test_maps_that_do_not_fit_are_refused(class_map, line):
    with pytest.raises(FisherSketchError, match=line):
        map_classes(torch.zeros(2, 3), class_map, 4)


def test_names_that_cannot_be_matched_are_refused():
    with pytest.raises(FisherSketchError, match=r"^class 'cow' is not among the 2 shared classes$"):
        match_classes(["cow"], ["ant", "bee"])
    with pytest.raises(FisherSketchError, match=r"^the shared classes hold a name twice"):
        match_classes(["ant"], ["ant", "ant"])
