import math

import numpy as np
import pytest
import torch

from fishersketch.baselines import leep
from fishersketch.errors import FisherSketchError


def random_case(seed, samples=60, source=5, target=3):
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(samples, source, generator=generator, dtype=torch.float64)
    labels = (logits.argmax(1) + torch.randint(0, 2, (samples,), generator=generator)) % target
    return torch.softmax(logits, 1), labels


def test_by_hand():
    probabilities = torch.tensor([[0.5, 0.5], [1.0, 0.0]])
    # P(y, z) = [[1/4, 1/4], [1/2, 0]], P(z) = [3/4, 1/4], P(0 | z) = [1/3, 1], P(1 | z) = [2/3, 0];
    # P(0 | x_0) = 1/6 + 1/2 = 2/3 and P(1 | x_1) = 2/3.
    assert leep(probabilities, torch.tensor([0, 1])) == pytest.approx(math.log(2 / 3), abs=1e-12)


def test_agrees_with_a_loop_over_the_definition():
    probabilities, labels = random_case(0)
    theta, y = probabilities.numpy(), labels.numpy()
    total = 0.0
    for t in range(len(y)):
        total += math.log(
            sum(theta[y == y[t], z].sum() / theta[:, z].sum() * theta[t, z] for z in range(theta.shape[1]))
        )
    assert leep(probabilities, labels) == pytest.approx(total / len(y), abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_lies_above_negative_conditional_entropy_plus_the_dummy_labels_likelihood(seed):
    # Property 1 of the LEEP paper: LEEP >= NCE + mean log theta(x)_z, z the source's most likely label.
    probabilities, labels = random_case(seed)
    z = probabilities.argmax(1)
    joint = np.zeros((3, 5))
    np.add.at(joint, (labels.numpy(), z.numpy()), 1 / len(labels))
    conditional = joint / joint.sum(0, where=joint > 0, initial=1e-300)
    nce = np.sum(joint[joint > 0] * np.log(conditional[joint > 0]))
    assert leep(probabilities, labels) >= nce + float(probabilities.amax(1).log().mean())
    assert leep(probabilities, labels) <= 0


def test_an_uninformative_source_leaves_the_label_entropy():
    labels = torch.tensor([0, 0, 0, 1])
    entropy = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    assert leep(torch.full((4, 7), 1 / 7), labels) == pytest.approx(-entropy, abs=1e-6)


def test_a_source_label_never_predicted_changes_nothing():
    probabilities, labels = random_case(1)
    padded = torch.cat([torch.zeros(60, 1), probabilities, torch.zeros(60, 2)], 1)
    assert leep(padded, labels) == pytest.approx(leep(probabilities, labels), abs=1e-12)


def test_refuses_what_is_no_distribution():
    probabilities, labels = random_case(2)
    with pytest.raises(
        FisherSketchError, match=r"rows that sum to 2 to 2: give the softmax over source labels"
    ):
        leep(2 * probabilities, labels)
    with pytest.raises(FisherSketchError, match=r"source_probabilities has entries from -"):
        leep(probabilities.log() / probabilities.log().sum(1, keepdim=True) * -1, labels)
