"""Rows of the transfer matrix: made once, extended, resumed, shared between processes and carried."""

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from experiments.domains.base import Domain
from experiments.errors import UserError
from experiments.finetune import transfer_matrix
from experiments.finetuning.rows import RowFolder, Rows
from experiments.models.base import LoadedModel
from experiments.store import Store
from tests.tiny_models import loaded
from tests.tiny_models import main as small_job
from tests.tiny_transfer import MODES, config


def unused(model: LoadedModel) -> LoadedModel:
    """The same fingerprint on a model that cannot predict anything: every row has to come from a file."""
    return replace(model, model=torch.nn.Identity())


def row_files(store: Store) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in (store.cache.root / "transfer_rows").glob("*.npz")}


def test_finished_rows_are_read_not_made(domains: list[Domain], store: Store) -> None:
    model, cfg = loaded("llama"), config("full", seeds=[0, 1])
    first = transfer_matrix(cfg, model, domains, store)
    files = row_files(store)
    assert len(files) == 1 + 2 * 3
    again = transfer_matrix(cfg, unused(model), domains, store)
    assert np.array_equal(again.tuned_loss, first.tuned_loss) and np.array_equal(
        again.base_loss, first.base_loss
    )
    fewer = transfer_matrix(config("full", seeds=[1]), unused(model), domains[::-2], store)
    assert fewer.names == ["c", "a"]
    assert np.array_equal(fewer.tuned_loss, first.tuned_loss[1:, ::-2, ::-2])
    assert row_files(store) == files


@pytest.mark.parametrize(
    "change",
    [
        {"learning_rate": 1e-4},
        {"weight_decay": 0.1},
        {"batch_windows": 2},
        {"epochs": 2},
        {"seeds": [7]},
        {"mode": "head"},
    ],
)
def test_another_setting_is_another_row(change: dict, domains: list[Domain], store: Store) -> None:
    model, cfg = loaded("llama"), config("full")
    first = transfer_matrix(cfg, model, domains[:2], store)
    files = row_files(store)
    other = transfer_matrix(replace(cfg, **change), model, domains[:2], store)
    assert not np.array_equal(other.tuned_loss, first.tuned_loss)
    assert row_files(store).items() > files.items()


def test_what_a_mode_does_not_use_makes_no_other_row(domains: list[Domain], store: Store) -> None:
    model = loaded("llama")
    transfer_matrix(config("full"), model, domains[:2], store)
    transfer_matrix(config("full", lora_rank=3, lora_alpha=5), unused(model), domains[:2], store)
    with pytest.raises(UserError, match="the weights of tiny are"):  # another model's rows have to be made
        transfer_matrix(config("full"), replace(unused(model), fingerprint="other"), domains[:2], store)


def test_more_targets_add_only_what_is_missing(domains: list[Domain], store: Store) -> None:
    model, cfg = loaded("llama"), config("full")
    transfer_matrix(cfg, model, domains[:2], store)
    digest, folder = domains[1].digest["held_out"], RowFolder(store.cache.root / "transfer_rows")
    for path in row_files(store):  # a mark that only survives where the target is not scored again
        with np.load(path) as row:
            key = json.loads(str(row["key"]))
        if key.get("source") == domains[0].digest["train"]:
            folder.write(key, folder.read(key) | {digest: np.full(4, 123.0, dtype=np.float32)})
    more = transfer_matrix(cfg, model, domains, store)
    assert (more.tuned_loss[0, 0, 1] == 123).all()
    fresh = Store(store.folder.parent / "fresh", {}, "pytest")
    fresh.cache.root = store.folder.parent / "fresh cache"
    alone = transfer_matrix(cfg, model, domains, fresh).tuned_loss
    kept = np.ones((3, 3), dtype=bool)
    kept[0, 1] = False
    # Windows are scored in other company, which may change the last digit of a float32.
    np.testing.assert_allclose(more.tuned_loss[0][kept], alone[0][kept], rtol=1e-5)


def test_a_record_holds_all_that_was_used_and_serves_alone(
    domains: list[Domain], store: Store, tmp_path: Path
) -> None:
    model, record = loaded("llama"), tmp_path / "results" / "rows"
    transfer_matrix(config("full"), model, domains[:2], store)  # cached before there was a record
    cfg = config("full", rows=str(record))
    first = transfer_matrix(cfg, model, domains, store)
    assert len(list(record.glob("*.npz"))) == 4 and not list(record.glob("*.lock"))
    assert sum(path.stat().st_size for path in record.glob("*.npz")) < 10_000
    elsewhere = Store(tmp_path / "elsewhere", {}, "pytest")
    elsewhere.cache.root = tmp_path / "no cache"
    again = transfer_matrix(cfg, unused(model), domains, elsewhere)
    assert np.array_equal(again.tuned_loss, first.tuned_loss) and not elsewhere.cache.root.exists()
    key_free = next(record.glob("*.npz"))
    key_free.write_bytes(key_free.read_bytes()[:100])
    with pytest.raises(UserError, match=rf"{key_free.name}: cannot be read as a row of losses .*; delete it"):
        transfer_matrix(cfg, model, domains, elsewhere)


def test_a_row_under_another_rows_name_is_refused(tmp_path: Path) -> None:
    folder = RowFolder(tmp_path)
    folder.write({"a": 1}, {"x": np.ones(3, dtype=np.float32)})
    assert folder.read({"a": 2}) == {}
    folder.file({"a": 1}).rename(folder.file({"a": 2}))
    with pytest.raises(UserError, match="holds the row of"):
        folder.read({"a": 2})


def test_rows_keep_counts_of_their_own(tmp_path: Path) -> None:
    folder = RowFolder(tmp_path)
    losses = {"x": np.arange(3, dtype=np.float32), "y": np.arange(5, dtype=np.float32) / 7}
    folder.write({"k": "ü"}, losses)
    found = folder.read({"k": "ü"})
    assert found.keys() == losses.keys()
    for digest, values in losses.items():
        assert found[digest].dtype == np.float32 and np.array_equal(found[digest], values)


def test_a_claimed_row_is_left_to_its_owner(tmp_path: Path) -> None:
    rows = Rows(tmp_path)
    with rows.claimed({"a": 1}, wait=False) as ours:
        code = (
            "import sys; from pathlib import Path; from experiments.finetuning.rows import Rows\n"
            "with Rows(Path(sys.argv[1])).claimed({'a': 1}, wait=False) as ours: print(ours)"
        )
        theirs = subprocess.run(
            [sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True
        )
        assert ours and theirs.stdout.strip() == "False"
    with rows.claimed({"a": 1}, wait=True) as ours:
        assert ours


def run_process(folder: Path, *arguments: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "tests.tiny_models", str(folder), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_two_processes_share_the_rows_and_a_killed_one_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = tmp_path / "shared" / "artefacts" / "transfer_rows"
    killed = run_process(tmp_path, "shared", "killed", "8")
    while len(list(rows.glob("[!.]*.npz"))) < 3:
        assert killed.poll() is None, killed.communicate()
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    left = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in rows.glob("[!.]*.npz")}
    assert 3 <= len(left) < 9
    pair = [run_process(tmp_path, "shared", name, "8") for name in ("first", "second")]
    for process in pair:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    for path, (when, content) in left.items():
        assert path.stat().st_mtime_ns == when and path.read_bytes() == content
    losses = [np.load(tmp_path / f"{name}.npy") for name in ("first", "second")]
    assert losses[0].shape == (1, 8, 8, 4) and np.array_equal(losses[0], losses[1])
    monkeypatch.setenv("FISHERSKETCH_CACHE", "set by the job")
    small_job(tmp_path, "alone", "third", 8)
    # Products may round otherwise in another process, and training adds that up.
    np.testing.assert_allclose(np.load(tmp_path / "third.npy"), losses[0], rtol=1e-3)
    assert len(list(rows.glob("[!.]*.npz"))) == 9 and not list(rows.glob(".*"))


def test_a_diverged_source_is_named_and_the_others_are_kept(domains: list[Domain], store: Store) -> None:
    model = loaded("untied")
    poison = 5
    with torch.no_grad():
        model.model.get_input_embeddings().weight[poison] = float("nan")
    clean = [
        replace(d, **{p: getattr(d, p).where(getattr(d, p) != poison, 6) for p in ("train", "held_out")})
        for d in domains
    ]
    train_b = clean[1].train.clone()
    train_b[:, 3] = poison
    poisoned = [clean[0], replace(clean[1], train=train_b), clean[2]]
    message = r"^transfer.learning_rate=0.003: .*mode=full.* b \(seed 0\): its training loss is nan at step 1"
    with pytest.raises(UserError, match=message):
        transfer_matrix(config("full"), model, poisoned, store)
    assert len(row_files(store)) == 3  # the base row and two sources
    assert np.isfinite(transfer_matrix(config("full"), unused(model), clean[::2], store).gain).all()
    held_out = clean[1].held_out.clone()
    held_out[2, 3] = poison
    with pytest.raises(UserError, match=r"^b: its held-out loss under tiny is not finite"):
        transfer_matrix(config("full"), model, [clean[0], replace(clean[1], held_out=held_out)], store)


@pytest.mark.parametrize("mode", MODES)
def test_a_rate_that_breaks_every_source_is_reported(mode: str, domains: list[Domain], store: Store) -> None:
    cfg = replace(config(mode), learning_rate=1e38)
    with pytest.raises(UserError, match=r"diverged on a \(seed 0\): .*b \(seed 0\): .*c \(seed 0\): "):
        transfer_matrix(cfg, loaded("llama"), domains, store)
    assert len(row_files(store)) == 1
