"""Fine-tuning into transfer rows, on tiny random language models of several families."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from torch.nn.functional import cross_entropy

from experiments.domains.base import Domain
from experiments.draws import permutations
from experiments.errors import UserError
from experiments.finetune import TransferConfig, transfer_matrix
from experiments.finetuning.full import full
from experiments.finetuning.head import head
from experiments.finetuning.lora import lora
from experiments.finetuning.losses import window_losses, windows_at_once
from experiments.finetuning.rows import RowFolder, Rows
from experiments.finetuning.train import Schedule, train
from experiments.matmul import fast_float32, product_error
from experiments.models.base import LoadedModel
from experiments.options import build_typed, check
from experiments.store import Store
from tests.tiny_models import CPU, VOCABULARY, loaded, markov_domain, tiny
from tests.tiny_models import main as small_job

MODES = {"full": 3e-3, "lora": 1e-2, "head": 1e-2}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setenv("FISHERSKETCH_CACHE", str(tmp_path / "cache"))
    with Store(tmp_path / "run", {"job": "test"}, "pytest") as opened:
        yield opened


@pytest.fixture
def domains() -> list[Domain]:
    return [markov_domain(name, seed) for seed, name in enumerate("abc")]


def config(mode: str, **changes: Any) -> TransferConfig:
    return TransferConfig(mode=mode, learning_rate=MODES.get(mode, 0.0), batch_windows=3, **changes)


def unused(model: LoadedModel) -> LoadedModel:
    """The same fingerprint on a model that cannot predict anything: every row has to come from a file."""
    return replace(model, model=torch.nn.Identity())


def row_files(store: Store) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in (store.cache.root / "transfer_rows").glob("*.npz")}


@pytest.mark.parametrize("family", ["llama", "untied", "gemma2", "granite", "gpt2"])
def test_losses_are_the_models_own(family: str) -> None:
    model, windows = tiny(family), markov_domain("a", 0).held_out
    with torch.no_grad():
        own = torch.stack([model(input_ids=w[None], labels=w[None]).loss for w in windows])
    inputs, labels = windows[:, :-1], windows[:, 1:]
    with full(model, family) as tunable:
        for at_once in (1, 2, 5):
            torch.testing.assert_close(window_losses(tunable.logits, inputs, labels, at_once, CPU), own)
    with head(model, CPU) as tunable:
        torch.testing.assert_close(
            window_losses(tunable.logits, tunable.encode(windows), labels, 2, CPU), own
        )
    if family != "gpt2":  # peft warns about its transposed layers
        with lora(model, CPU, 2, 4) as tunable:
            tunable.reset("start", 0)
            torch.testing.assert_close(window_losses(tunable.logits, inputs, labels, 5, CPU), own)


@pytest.mark.parametrize("family", ["llama", "untied"])
def test_full_training_is_adamw_on_the_models_loss(family: str) -> None:
    domain, ours, theirs = markov_domain("a", 0), tiny(family), tiny(family)
    schedule = Schedule(learning_rate=1e-2, weight_decay=0.1, batch_windows=3, epochs=2)
    orders = permutations("windows a", 5, 2, len(domain.train))
    optimizer = torch.optim.AdamW(theirs.parameters(), lr=1e-2, weight_decay=0.1)
    for order in torch.from_numpy(orders):
        for batch in order.split(3):
            windows = domain.train[batch]
            optimizer.zero_grad()
            theirs(input_ids=windows, labels=windows).loss.backward()
            optimizer.step()
    with full(ours, family) as tunable:
        inputs, labels = domain.train[:, :-1], domain.train[:, 1:]
        train(tunable, inputs, labels, schedule, label="a", seed=5, at_once=2, device=CPU)
        for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-3)
    assert not any(torch.equal(p, q) for p, q in zip(ours.parameters(), theirs.parameters(), strict=True))


@pytest.mark.parametrize("family", ["llama", "gemma2"])
def test_head_training_is_that_of_an_untied_head_over_a_frozen_body(family: str) -> None:
    domain, model, reference = markov_domain("a", 0), tiny(family), tiny(family)
    reference.requires_grad_(False)
    weight = torch.nn.Parameter(reference.get_output_embeddings().weight.detach().clone())
    reference.get_output_embeddings().weight = weight  # the embedding keeps its own tensor
    optimizer = torch.optim.AdamW([weight], lr=1e-2, weight_decay=0.0)
    for batch in torch.from_numpy(permutations("windows a", 0, 1, len(domain.train))[0]).split(4):
        optimizer.zero_grad()
        logits = reference(input_ids=domain.train[batch, :-1]).logits
        cross_entropy(logits.flatten(0, 1), domain.train[batch, 1:].flatten()).backward()
        optimizer.step()
    with head(model, CPU) as tunable:
        inputs, labels = tunable.encode(domain.train), domain.train[:, 1:]
        schedule = Schedule(learning_rate=1e-2, weight_decay=0.0, batch_windows=4, epochs=1)
        train(tunable, inputs, labels, schedule, label="a", seed=0, at_once=3, device=CPU)
        torch.testing.assert_close(tunable.trained["weight"], weight, atol=1e-4, rtol=1e-3)
        held_out = domain.held_out
        ours = window_losses(tunable.logits, tunable.encode(held_out), held_out[:, 1:], 3, CPU)
    theirs = window_losses(lambda x: reference(input_ids=x).logits, held_out[:, :-1], held_out[:, 1:], 3, CPU)
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("mode", MODES)
def test_the_model_is_as_it_was_bit_for_bit(mode: str, domains: list[Domain], store: Store) -> None:
    model = loaded("llama")
    model.model.model.layers[0].requires_grad_(False)
    before = {name: (p.detach().clone(), p.requires_grad) for name, p in model.model.named_parameters()}
    modules = [type(module) for module in model.model.modules()]
    drawn = torch.get_rng_state()
    transfer_matrix(config(mode), model, domains, store)
    assert torch.equal(torch.get_rng_state(), drawn)
    after = dict(model.model.named_parameters())
    assert after.keys() == before.keys()
    for name, (weight, flag) in before.items():
        assert (
            torch.equal(after[name], weight)
            and after[name].requires_grad == flag
            and after[name].grad is None
        )
    assert model.model.lm_head.weight is model.model.model.embed_tokens.weight and not model.model.training
    assert [type(module) for module in model.model.modules()] == modules


@pytest.mark.parametrize("mode", MODES)
def test_the_model_is_put_back_after_an_interruption(mode: str) -> None:
    model, domain = tiny("llama"), markov_domain("a", 0)
    before = [p.detach().clone() for p in model.parameters()]
    opened = {
        "full": lambda: full(model, "tiny"),
        "lora": lambda: lora(model, CPU, 2, 4),
        "head": lambda: head(model, CPU),
    }
    with pytest.raises(KeyboardInterrupt), opened[mode]() as tunable:
        tunable.reset("a", 0)
        schedule = Schedule(learning_rate=1.0, weight_decay=0.0, batch_windows=4, epochs=1)
        inputs, labels = tunable.encode(domain.train), domain.train[:, 1:]
        train(tunable, inputs, labels, schedule, label="a", seed=0, at_once=4, device=CPU)
        raise KeyboardInterrupt
    assert all(torch.equal(p, b) for p, b in zip(model.parameters(), before, strict=True))


@pytest.mark.parametrize("mode", MODES)
def test_rows_do_not_depend_on_what_was_made_before(mode: str, tmp_path: Path, domains: list[Domain]) -> None:
    stores = [Store(tmp_path / name, {}, "pytest") for name in ("all", "one")]
    for store in stores:
        store.cache.root = tmp_path / store.folder.name / "cache"
    cfg = config(mode, seeds=[0, 1])
    whole = transfer_matrix(cfg, loaded("llama"), domains, stores[0])
    last = transfer_matrix(cfg, loaded("llama"), domains[2:], stores[1])
    assert np.array_equal(whole.tuned_loss[:, 2:, 2:], last.tuned_loss)
    assert not np.array_equal(whole.tuned_loss[0], whole.tuned_loss[1])  # another order of the windows


@pytest.mark.parametrize("mode", MODES)
def test_training_on_windows_helps_those_most(mode: str, domains: list[Domain], store: Store) -> None:
    domains = [replace(domain, held_out=domain.train[:4]) for domain in domains]
    found = transfer_matrix(config(mode, epochs=4), loaded("llama"), domains, store)
    assert found.names == ["a", "b", "c"]
    assert found.base_loss.shape == (3, 4) and found.tuned_loss.shape == (1, 3, 3, 4)
    gain = found.gain[0]
    assert (gain.argmax(axis=0) == np.arange(3)).all() and (np.diag(gain) > 0.02).all()
    expected = found.base_loss.mean(axis=1) - found.tuned_loss[0].mean(axis=2)
    np.testing.assert_allclose(gain, expected, atol=1e-12)
    np.testing.assert_allclose(found.half_gains.mean(axis=0), gain, atol=1e-12)
    assert not np.allclose(found.half_gains[0], found.half_gains[1])


def test_the_real_model_learns_from_text_and_is_put_back(small_model: LoadedModel, store: Store) -> None:
    texts = {
        "spanish": "El usuario no puede guardar los cambios porque la página ha caducado. Vuelva a probar. ",
        "c": "for (int i = 0; i < n; i++) { if (a[i] != b[i]) return -1; total += a[i] * b[i]; } ",
    }
    domains = []
    for name, text in texts.items():
        ids = small_model.tokenizer(text * 40)["input_ids"]
        windows = torch.tensor(ids[: 9 * 33]).view(9, 33)
        domains.append(Domain(name, name, "written here", "MIT", windows[:8], windows[:8], windows[8:]))
    before = [p.detach().clone() for p in small_model.model.parameters()]
    found = transfer_matrix(TransferConfig(learning_rate=2e-5), small_model, domains, store)
    assert all(torch.equal(p, b) for p, b in zip(small_model.model.parameters(), before, strict=True))
    gain = found.gain[0]
    assert (np.diag(gain) > 0.05).all() and (gain.argmax(axis=0) == [0, 1]).all()


def test_none_trains_nothing(domains: list[Domain], store: Store) -> None:
    found = transfer_matrix(config("none", seeds=[0, 1]), loaded("llama"), domains, store)
    assert found.tuned_loss.shape == (2, 3, 3, 4) and not found.gain.any()
    trained = transfer_matrix(config("full"), loaded("llama"), domains, store)
    assert np.array_equal(trained.base_loss, found.base_loss)


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


def test_half_precision_is_refused_where_it_would_swallow_the_steps(
    domains: list[Domain], store: Store
) -> None:
    model = loaded("llama", torch.bfloat16)
    with pytest.raises(
        UserError, match=r"transfer.mode=full: the weights of tiny are bfloat16, .*model.dtype=float32"
    ):
        transfer_matrix(config("full"), model, domains, store)
    trained_on = [replace(domains[0], held_out=domains[0].train)]
    for mode in ("head", "lora"):
        assert transfer_matrix(config(mode, epochs=4), model, trained_on, store).gain > 0.02


def test_lora_adapters_start_from_their_own_draws() -> None:
    model = tiny("llama")
    with lora(model, CPU, 2, 4) as tunable:
        started = []
        for label, seed in (("a", 0), ("a", 0), ("a", 1), ("b", 0)):
            tunable.reset(label, seed)
            started.append([p.detach().clone() for p in tunable.parameters])
            assert all(p.dtype == torch.float32 for p in tunable.parameters)
        assert all(map(torch.equal, started[0], started[1]))
        for other in started[2:]:
            assert not any(torch.equal(p, q) for p, q in zip(started[0][::2], other[::2], strict=True))
        names = {name for name, p in tunable.model.named_parameters() if p.requires_grad}
        assert names and all("lora_" in name and "lm_head" not in name for name in names)
        assert len(tunable.parameters) == 2 * 7 * 2  # A and B of seven linear layers in each of two blocks
        down, up = started[0][:2]
        assert down.abs().max() <= 1 / np.sqrt(down.shape[1]) and down.std() > 0.5 / np.sqrt(down.shape[1])
        assert not up.any()


def test_blocks_are_bounded() -> None:
    assert windows_at_once(64, 49_152, CPU) == 5
    assert windows_at_once(2_048, 128_256, CPU) == 1
    assert windows_at_once(64, 49_152, torch.device("cuda")) == 85


def test_faster_products_are_accurate_and_the_setting_is_put_back() -> None:
    before = torch.get_float32_matmul_precision()
    assert before == "highest"
    with fast_float32(CPU) as faster:
        assert product_error() < 2e-6
        assert torch.get_float32_matmul_precision() == ("medium" if faster else "highest")
    with pytest.raises(KeyboardInterrupt), fast_float32(CPU):
        raise KeyboardInterrupt
    with fast_float32(torch.device("cuda")) as faster:
        assert not faster and torch.get_float32_matmul_precision() == before
    assert torch.get_float32_matmul_precision() == before


@pytest.mark.parametrize("path", sorted(Path("conf/transfer").glob("*.yaml")), ids=lambda path: path.stem)
def test_yaml_files_say_every_setting_their_mode_uses(path: Path) -> None:
    content = yaml.safe_load(path.read_text("utf-8"))
    cfg = build_typed(TransferConfig, {k: v for k, v in content.items() if k != "defaults"}, "transfer")
    assert cfg.mode == path.stem
    if cfg.mode != "none":
        assert content.keys() >= cfg.settings().keys() | {"seeds"}


def test_there_is_a_yaml_file_for_every_mode() -> None:
    names = {path.stem for path in Path("conf/transfer").glob("*.yaml")}
    assert names == {"full", "lora", "head", "none"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seeds": []}, r"transfer.seeds=\[\]: must be one seed or more"),
        ({"seeds": [1, 1]}, r"transfer.seeds=\[1, 1\]: must be one seed or more, each once"),
        ({"seeds": [-1]}, r"transfer.seeds=-1: must be at least 0"),
        ({"mode": "half"}, r"transfer.mode=half: must be one of full, lora, head, none"),
        ({"batch_windows": 0}, r"transfer.batch_windows=0: must be at least 1"),
    ],
)
def test_wrong_settings_are_refused(change: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        check(replace(TransferConfig(), **change), "transfer")


def test_vocabulary_of_the_tests_is_covered() -> None:
    assert markov_domain("a", 0).train.max() < VOCABULARY
