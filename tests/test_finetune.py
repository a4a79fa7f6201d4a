"""Ways to fine-tune, on tiny random language models of several families and the real small one."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from experiments.domains.base import Domain
from experiments.draws import permutations
from experiments.errors import UserError
from experiments.finetune import TransferConfig, transfer_matrix
from experiments.finetuning.full import full
from experiments.finetuning.head import head
from experiments.finetuning.lora import lora
from experiments.finetuning.losses import window_losses
from experiments.finetuning.train import Schedule, train
from experiments.models.base import LoadedModel
from experiments.store import Store
from tests.tiny_models import CPU, loaded, markov_domain, tiny
from tests.tiny_transfer import MODES, config


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


@pytest.mark.parametrize("mode", ["full", "lora", "head"])
def test_bfloat16_products_give_other_rows_that_are_nearly_the_same(mode: str, store: Store) -> None:
    domains = [markov_domain("a", 0), markov_domain("b", 1)]
    precise = transfer_matrix(config(mode), loaded("llama"), domains, store)
    rounded = transfer_matrix(config(mode, precision="bfloat16"), loaded("llama"), domains, store)
    change = rounded.gain - precise.gain
    assert 0 < np.abs(change).max() < 0.1 * np.abs(precise.gain).max()
