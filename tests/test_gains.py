"""Gains from a file, and fine-tuning on fewer windows than a source has."""

import numpy as np
import pytest

from experiments.errors import UserError
from experiments.finetune import TransferConfig, transfer_matrix
from experiments.gains import GainTable, measured_gains
from experiments.store import Store
from tests.tiny_models import loaded, markov_domain

SQUARE = "source,a,b,c\na,,0.2,0.3\nc,0.5,-0.6,x\n\nb,1e-1,,0.4\n"


def table(tmp_path, text, encoding="utf-8"):
    path = tmp_path / "gains.csv"
    path.write_bytes(text.encode(encoding))
    return GainTable(path=str(path))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_a_square_table_is_read_by_names(tmp_path, encoding):
    gain = table(tmp_path, SQUARE, encoding).read(["b", "a", "c"])
    expected = [[np.nan, 0.1, 0.4], [0.2, np.nan, 0.3], [-0.6, 0.5, np.nan]]
    np.testing.assert_array_equal(gain, expected)  # [source, target], the file's own order aside
    np.testing.assert_array_equal(table(tmp_path, SQUARE).read(["a", "b"]), [[np.nan, 0.2], [0.1, np.nan]])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not square: 0 sources and 0 targets"),
        ("source,a,b\na,,1\n", "is not square: 1 sources and 2 targets, which must be the same names"),
        ("source,a,b,a\na,,1,1\nb,1,,1\na,1,1,1\n", "3 sources and 3 targets, .* each once"),
        ("source,a,b\na,,1\nb,1\n", "row 'b' has 1 gains for 2 targets"),
        ("source,a,b\na,,1\nb,much,\n", "gain of 'b' to 'a' is 'much'; give a number in nats/token"),
        ("source,a,b\na,,nan\nb,1,\n", "gain of 'a' to 'b' is 'nan'; give a number"),
        ("source,a,c\na,,1\nc,1,\n", "has no domain 'b'; add it, or leave it out with domains.include"),
    ],
)
def test_a_table_that_does_not_fit_is_refused_in_one_line(tmp_path, text, message):
    with pytest.raises(UserError, match=f"transfer.path=.*gains.csv: .*{message}") as caught:
        table(tmp_path, text).read(["a", "b"])
    assert "\n" not in str(caught.value)


def test_what_cannot_be_read_is_named(tmp_path):
    with pytest.raises(UserError, match="transfer.path=none.csv: cannot be read .No such file"):
        GainTable(path="none.csv").read(["a"])
    with pytest.raises(UserError, match="gains.csv: cannot be read .*codec"):
        table(tmp_path, "é,a\na,\n", "utf-16").read(["a"])


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("FISHERSKETCH_CACHE", str(tmp_path / "cache"))
    with Store(tmp_path / "run", {}, "test") as opened:
        yield opened


def test_gains_come_from_the_table_from_fine_tuning_or_not_at_all(tmp_path, store):
    model, domains = loaded("llama"), [markov_domain(name, 0) for name in "ab"]
    read = measured_gains(table(tmp_path, SQUARE), model, domains, store)
    assert read.gain.shape == (1, 2, 2) and read.half_gains is None and read.losses == {}
    assert measured_gains(TransferConfig(mode="none"), model, domains, store) is None
    cfg = TransferConfig(mode="head", learning_rate=1e-2, seeds=[0, 1])
    tuned = measured_gains(cfg, model, domains, store)
    matrix = transfer_matrix(cfg, model, domains, store)
    np.testing.assert_array_equal(tuned.gain, matrix.gain)
    np.testing.assert_array_equal(tuned.half_gains, matrix.half_gains)
    assert tuned.losses["base_loss"].shape == (2,) and tuned.losses["tuned_loss"].shape == (2, 2, 2)


def test_fewer_windows_are_the_first_of_the_source(store):
    model, domains = loaded("llama"), [markov_domain(name, 0) for name in "ab"]
    short = [markov_domain(name, 0, train=10) for name in "ab"]
    short = [
        type(d)(d.name, d.group, d.source, d.licence, d.train[:3], d.sketch[:3], d.held_out) for d in short
    ]
    settings = {"mode": "head", "learning_rate": 1e-2, "batch_windows": 2}
    some = transfer_matrix(TransferConfig(**settings, train_windows=3), model, domains, store)
    alone = transfer_matrix(TransferConfig(**settings), model, short, store)
    whole = transfer_matrix(TransferConfig(**settings), model, domains, store)
    np.testing.assert_array_equal(some.gain, alone.gain)
    np.testing.assert_array_equal(some.base_loss, whole.base_loss)
    assert not np.array_equal(some.gain, whole.gain)
    with pytest.raises(UserError, match="transfer.train_windows=11: a has 10; raise domains.train_windows"):
        transfer_matrix(TransferConfig(**settings, train_windows=11), model, domains, store)
