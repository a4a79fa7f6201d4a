import json

import numpy as np
import pytest
from composed import composed
from hypothesis import given, settings
from hypothesis import strategies as st
from saved_models import word_tokenizer

from experiments.domains.domain_set import DomainSetConfig
from experiments.domains.spans import spans
from experiments.errors import UserError
from experiments.options import check


def words(first: int, count: int, start: int = 0) -> list[str]:
    """Lines of eight words, each another one; no two ``first`` give the same."""
    return [
        " ".join(f"w{number}" for number in (100 + first, 101 + first, 102, 103, *map(int, f"{line:04d}")))
        for line in range(start, start + count)
    ]


def write(path, lines) -> str:
    path.write_text("".join(json.dumps({"text": line}) + "\n" for line in lines))
    return str(path)


def local_set(paths: dict[str, str], **settings) -> DomainSetConfig:
    entries = {name: {"kind": "local_text", "group": "mine", "path": path} for name, path in paths.items()}
    defaults = {"window_tokens": 11, "train_windows": 4, "sketch_windows": 2, "held_out_windows": 3}
    return DomainSetConfig(entries=entries, **(defaults | settings))


def text_lines(tokenizer, windows) -> set[str]:
    """Whole lines of the windows that are long enough to be spans."""
    found = set()
    for window in windows:
        found |= set(spans("\n".join(tokenizer.decode(window).split("\n")[1:-1]), 20))
    return found


def test_demo12_has_its_windows_and_no_leak(small_model):
    built = composed("domains", "demo12").build(small_model.tokenizer)
    assert len(built.domains) == 12
    assert {domain.group for domain in built.domains} == {"romance", "scandinavian", "code", "smiles"}
    for domain in built.domains:
        assert domain.train.shape == domain.sketch.shape == (16, 65)
        assert domain.held_out.shape == (6, 65)
        assert domain.source and domain.licence
        assert domain.train.min() >= 0 and domain.train.max() < small_model.vocabulary_size
    train = set().union(*(text_lines(small_model.tokenizer, domain.train) for domain in built.domains))
    held_out = [text_lines(small_model.tokenizer, domain.held_out) for domain in built.domains]
    assert len(train) > 200 and all(held_out)
    assert not train & set().union(*held_out)


def test_the_windows_are_the_same_every_time_and_follow_the_seed(small_model):
    digests = [
        [
            domain.digest
            for domain in composed("domains", "tiny", *overrides).build(small_model.tokenizer).domains
        ]
        for overrides in ([], [], ["seed=1"])
    ]
    assert digests[0] == digests[1]
    for before, after in zip(digests[0], digests[2], strict=True):
        assert all(before[part] != after[part] for part in ("train", "sketch", "held_out"))


def test_the_choice_of_domains_leaves_the_training_windows_as_they_are(small_model):
    every = composed("domains", "tiny").build(small_model.tokenizer)
    some = composed("domains", "tiny", "include=[ruby,danish]", "limit=2").build(small_model.tokenizer)
    assert [domain.name for domain in some.domains] == ["danish", "ruby"]
    by_name = {domain.name: domain for domain in every.domains}
    assert all(domain.digest["train"] == by_name[domain.name].digest["train"] for domain in some.domains)


def test_entries_are_chosen_by_name_group_and_number():
    assert list(composed("domains", "demo12", "groups=[code,smiles]", "limit=4").chosen()) == [
        "c",
        "java",
        "ruby",
        "moses",
    ]


def test_text_that_two_domains_share_is_never_held_out_from_the_other(tmp_path):
    shared = words(10, 60)
    paths = {
        "small": write(tmp_path / "small.jsonl", shared),
        "large": write(tmp_path / "large.jsonl", shared + words(50, 60, start=60)),
    }
    config = local_set(paths, window_tokens=7, train_windows=40, sketch_windows=40, held_out_windows=15)
    built = config.build(word_tokenizer(adds_bos=False))
    # A window of eight tokens is a line.
    parts = {
        (domain.name, part): set(map(tuple, getattr(domain, part).tolist()))
        for domain in built.domains
        for part in ("train", "held_out")
    }
    train = parts["small", "train"] | parts["large", "train"]
    assert not train & (parts["small", "held_out"] | parts["large", "held_out"])
    assert len(parts["small", "held_out"] | parts["large", "held_out"]) > 15
    assert built.dropped["large"] > 0
    assert built.overlap[0, 1] > 0
    np.testing.assert_array_equal(np.diag(built.overlap), 0)


def test_the_overlap_is_the_share_of_held_out_spans_in_training_text(tmp_path):
    paths = {
        "one": write(tmp_path / "one.jsonl", words(10, 40)),
        "two": write(tmp_path / "two.jsonl", words(50, 40)),
    }
    built = local_set(paths).build(word_tokenizer(adds_bos=True))
    np.testing.assert_array_equal(built.overlap, np.zeros((2, 2)))
    assert built.dropped == {"one": 0, "two": 0}


def test_a_file_of_one_line_is_divided(tmp_path, small_model):
    records = [{"id": number, "value": f"text of record {number}"} for number in range(400)]
    (tmp_path / "one.json").write_text(json.dumps(records))
    config = local_set({"json": str(tmp_path / "one.json")}, window_tokens=64)
    (domain,) = config.build(small_model.tokenizer).domains
    ids = [
        {
            int(word)
            for word in small_model.tokenizer.decode(part.flatten()).replace('"', " ").split()
            if word.isdigit()
        }
        for part in (domain.train, domain.held_out)
    ]
    assert ids[0] and ids[1]
    assert len(ids[0] & ids[1]) <= 0.2 * len(ids[1])


def test_a_domain_with_too_few_tokens_is_refused_with_both_counts(tmp_path):
    paths = {"short": write(tmp_path / "short.jsonl", words(10, 10))}
    with pytest.raises(
        UserError,
        match=r"^domains\.entries\.short: has 80 tokens, but needs 84 \(48 to train on, 36 held out\); 0 "
        r"spans of it were dropped as training text holds them; give it more text, leave it out, or lower",
    ):
        local_set(paths).build(word_tokenizer(adds_bos=False))
    assert (
        local_set(paths, held_out_windows=2).build(word_tokenizer(adds_bos=False)).domains[0].name == "short"
    )


def test_no_more_is_read_than_asked_for(tmp_path):
    paths = {"long": write(tmp_path / "long.jsonl", words(10, 1000))}
    with pytest.raises(UserError, match=r"^domains\.entries\.long: has \d+ tokens, but needs 84"):
        local_set(paths, read_characters=200).build(word_tokenizer(adds_bos=False))


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("sketch_windows=17", r"domains\.sketch_windows=17: must be at most domains\.train_windows=16$"),
        ("window_tokens=0", r"domains\.window_tokens=0: must be at least 1$"),
        ("include=[latin]", r"domains\.include: there is no 'latin'; known: bioactives, c, "),
        (
            "groups=[latin]",
            r"domains\.groups: there is no 'latin'; known: code, romance, scandinavian",
        ),
        (
            "include=[]",
            r"domains\.entries: no domain is left; set entries, or widen include, ",
        ),
        ("entries.c.kind=nope", r"domains\.entries\.c\.kind=nope: must be one of django_po, "),
        ("entries.c.group=null", r"domains\.entries\.c\.group"),
    ],
)
def test_a_wrong_setting_is_named_before_anything_is_read(override, says):
    with pytest.raises(UserError, match=f"^{says}"):
        check(composed("domains", "demo12", override), "domains")


def test_siblings_are_names_of_entries():
    config = composed("domains", "demo12")
    config.siblings = {"old": ["latin"]}
    with pytest.raises(UserError, match=r"^domains\.siblings\.old: there is no 'latin'; known: bioactives, "):
        check(config, "domains")


def test_the_example_of_local_files_names_the_file_that_is_missing(small_model):
    with pytest.raises(UserError, match=r"^domains\.entries\.reports\.path=data/reports\.jsonl: there is no"):
        composed("domains", "local").build(small_model.tokenizer)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**31), st.integers(2, 30), st.integers(1, 20))
def test_training_and_held_out_lines_never_meet(tmp_path_factory, seed, train_windows, held_out_windows):
    path = write(tmp_path_factory.mktemp("texts") / "lines.jsonl", words(10, 60))
    config = local_set(
        {"only": path},
        seed=seed,
        window_tokens=7,
        train_windows=train_windows,
        held_out_windows=held_out_windows,
    )
    (domain,) = config.build(word_tokenizer(adds_bos=False)).domains
    train, held_out = (set(map(tuple, part.tolist())) for part in (domain.train, domain.held_out))
    assert len(train) == train_windows and len(held_out) == held_out_windows
    assert not train & held_out
