"""Head terms on small stand-ins: labels, groups, chunks, draws, memory, and what is refused."""

import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fishersketch.errors import FisherSketchError
from fishersketch.head import HeadTerms, head_terms, iter_head_terms, output_head

DIM, OUTPUTS = 6, 11


class TinyLM(nn.Module):
    """An embedding, a head, and a function of the raw outputs."""

    def __init__(self, after: Callable[[Tensor], Tensor] = lambda raw: raw, outputs: int = OUTPUTS) -> None:
        super().__init__()
        self.embed = nn.Embedding(outputs, DIM)
        self.lm_head: nn.Module = nn.Linear(DIM, outputs)
        self.after = after
        self.seen: dict[str, Any] = {}

    def get_output_embeddings(self) -> nn.Module:
        return self.lm_head

    def forward(self, input_ids: Tensor, use_cache: bool = True, **kwargs: Any) -> SimpleNamespace:
        self.seen = {"use_cache": use_cache, "grad": torch.is_grad_enabled()}
        return SimpleNamespace(logits=self.after(self.lm_head(self.embed(input_ids))))


class Classifier(nn.Module):
    """A body and a head of any kind."""

    def __init__(self, head: nn.Module) -> None:
        super().__init__()
        self.body = nn.Linear(4, DIM)
        self.head = head

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x))


def tiny(
    after: Callable[[Tensor], Tensor] = lambda raw: raw,
    spread: float = 3.0,
    dtype: torch.dtype = torch.float64,
) -> TinyLM:
    torch.manual_seed(0)
    model = TinyLM(after)
    with torch.no_grad():
        model.get_output_embeddings().weight.mul_(spread)  # type: ignore[operator]
    return model.eval().to(dtype)


def text(rows: int = 2, length: int = 7) -> Tensor:
    return torch.randint(0, OUTPUTS, (rows, length), generator=torch.Generator().manual_seed(1))


def classes(count: int) -> tuple[dict[str, Tensor], Tensor]:
    generator = torch.Generator().manual_seed(2)
    return {"x": torch.randn(count, 4, generator=generator)}, torch.arange(count) % 3


AFTER: dict[str, Callable[[Tensor], Tensor]] = {
    "plain": lambda raw: raw,
    "doubled": lambda raw: raw * 2,
    "divided": lambda raw: raw / 3.7,
    "capped": lambda raw: 5.0 * torch.tanh(raw / 5.0),
    "scaled_and_capped": lambda raw: 5.0 * torch.tanh(raw * 0.3 / 5.0),
    "hardly_scaled_and_capped": lambda raw: 50.0 * torch.tanh(raw * 0.002 / 50.0),
    "in_float16": lambda raw: raw.half(),
    "in_float32": lambda raw: 5.0 * torch.tanh(raw.float() / 5.0),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", AFTER)
def test_errors_are_the_gradient_at_the_raw_output(name: str, dtype: torch.dtype) -> None:
    model, ids = tiny(AFTER[name], dtype=dtype), text()
    terms = head_terms(model, {"input_ids": ids}, ids)
    hidden = model.embed(ids[:, :-1]).detach().flatten(0, 1)
    raw = nn.functional.linear(hidden, model.lm_head.weight, model.lm_head.bias).detach().requires_grad_()
    after = AFTER["plain"] if name == "in_float16" else AFTER[name]  # a cast is no transform
    nn.functional.cross_entropy(after(raw), ids[:, 1:].flatten(), reduction="sum").backward()
    tolerance = 1e-6 if dtype == torch.float32 or name == "in_float32" else 1e-12
    assert float((terms.errors - raw.grad).abs().max()) < tolerance
    assert torch.equal(terms.activations, hidden)
    assert terms.errors.dtype == dtype


@pytest.mark.parametrize(
    ("after", "message"),
    [
        (lambda raw: raw + 1.0, r"TinyLM applies an unknown transform after its head: raw output .* became"),
        (lambda raw: -raw, "known are a positive scale and a tanh soft-cap"),
        (lambda raw: raw.log_softmax(dim=-1), "unknown transform"),
        (lambda raw: raw.sigmoid(), "unknown transform"),
        (lambda raw: raw.clamp(-20, 20), "unknown transform"),
        (lambda raw: raw * torch.linspace(0.9, 1.1, OUTPUTS), "unknown transform"),
        (lambda raw: raw.index_fill(-1, torch.tensor([4]), -1e30), r"in column 4 became -1e\+30"),
        (lambda raw: raw.flip(-1), "unknown transform"),
        (lambda raw: raw * 0.0, "unknown transform"),
        (lambda raw: raw[..., :-1], r"returns logits of shape .* where its head gave raw outputs of shape"),
        (lambda raw: (raw * 0.3).bfloat16(), "rounds them to torch.bfloat16, .* load the model in float32"),
        (lambda raw: None, "returns a SimpleNamespace without logits"),
    ],
)
def test_unknown_transform_is_refused(after: Callable[[Tensor], Tensor], message: str) -> None:
    model = tiny(after)
    with pytest.raises(FisherSketchError, match=message):
        head_terms(model, {"input_ids": text()}, text())
    assert len(model.lm_head._forward_hooks) == len(model.lm_head._forward_pre_hooks) == 0


def test_half_precision_model_has_its_constants_unrounded() -> None:
    ids = text()
    model = tiny(lambda raw: 5.0 * torch.tanh(raw / 8.7 / 5.0), dtype=torch.bfloat16)
    terms = head_terms(model, {"input_ids": ids}, ids)
    exact = head_terms(model.double(), {"input_ids": ids}, ids)
    assert terms.errors.dtype == terms.activations.dtype == torch.float32
    assert float((terms.errors - exact.errors).abs().max()) < 1e-6


def test_positions_kept_and_their_groups() -> None:
    model, ids = tiny(), text(3, 6)
    labels = ids.clone()
    labels[0, 0] = labels[0, 3] = -100  # the first token is predicted by nothing
    mask = torch.ones_like(ids)
    mask[1, 4:] = 0
    mask[2, :3] = 0
    terms = head_terms(model, {"input_ids": ids, "attention_mask": mask}, labels)
    kept = [(0, 0), (0, 1), (0, 3), (0, 4), (1, 0), (1, 1), (1, 2), (2, 3), (2, 4)]
    assert torch.equal(terms.activations, model.embed(torch.stack([ids[at] for at in kept])).detach())
    assert terms.errors.argmin(dim=1).tolist() == [int(ids[row, time + 1]) for row, time in kept]
    assert terms.group.tolist() == [row for row, _ in kept]
    given = head_terms(
        model, {"input_ids": ids, "attention_mask": mask}, labels, group=torch.tensor([7, 7, 2])
    )
    assert given.group.tolist() == [[7, 7, 2][row] for row, _ in kept]


def test_packed_rows_with_padding_between() -> None:
    model, ids = tiny(), text(2, 8)
    positions = torch.tensor([[0, 1, 2, 0, 1, 0, 1, 2], [1, 0, 1, 2, 1, 1, 0, 1]])
    mask = torch.tensor([[1, 1, 1, 1, 1, 1, 1, 1], [0, 1, 1, 1, 0, 0, 1, 1]])
    inputs = {"input_ids": ids, "attention_mask": mask, "position_ids": positions}
    kept = [(0, 0), (0, 1), (0, 3), (0, 5), (0, 6), (1, 1), (1, 2), (1, 6)]
    terms = head_terms(model, inputs, ids)
    assert torch.equal(terms.activations, model.embed(torch.stack([ids[at] for at in kept])).detach())
    assert terms.group.tolist() == [0, 0, 1, 2, 2, 3, 3, 4]
    assert head_terms(model, inputs, ids, group=[10, 20]).group.tolist() == [10, 10, 11, 12, 12, 20, 20, 21]
    with pytest.raises(
        FisherSketchError, match="group 10 heads a row of 3 packed sequences, whose ids meet group 12"
    ):
        head_terms(model, inputs, ids, group=[10, 12])
    single = {"input_ids": ids[:1, :5], "position_ids": torch.tensor([[0, 0, 1, 0, 0]])}  # lengths 1, 2, 1, 1
    assert head_terms(model, single, ids[:1, :5]).group.tolist() == [1]
    shared = {"input_ids": ids, "position_ids": torch.arange(8)}  # one row of positions for the whole batch
    assert head_terms(model, shared, ids).group.tolist() == [0] * 7 + [1] * 7


@pytest.mark.parametrize("name", ["plain", "capped"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("label_mode", ["data", "model"])
def test_chunks_change_nothing(name: str, dtype: torch.dtype, label_mode: str) -> None:
    model, ids = tiny(AFTER[name], dtype=dtype), text(5, 9)

    def generator() -> torch.Generator | None:
        return torch.Generator().manual_seed(3) if label_mode == "model" else None

    whole = head_terms(model, {"input_ids": ids}, ids, label_mode, generator())
    row_bytes = OUTPUTS * whole.errors.element_size()
    for rows in (1, 7, 40, 1000):
        chunk_bytes = rows * row_bytes + row_bytes // 2
        parts = list(
            iter_head_terms(model, {"input_ids": ids}, ids, label_mode, generator(), chunk_bytes=chunk_bytes)
        )
        assert all(part.errors.numel() * part.errors.element_size() <= chunk_bytes for part in parts)
        assert len(parts) == -(-40 // rows)
        joined = HeadTerms(*(torch.cat(list(column)) for column in zip(*map(columns, parts), strict=True)))
        scale = float(whole.errors.abs().max())
        assert (
            float((joined.errors - whole.errors).abs().max())
            < (1e-10 if dtype == torch.float64 else 1e-6) * scale
        )
        assert torch.equal(joined.activations, whole.activations) and torch.equal(joined.group, whole.group)
        assert torch.equal(joined.labels, whole.labels)


def columns(terms: HeadTerms) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return terms.activations, terms.errors, terms.group, terms.labels


def test_blocks_share_no_memory() -> None:
    model, ids = tiny(), text()
    blocks = iter_head_terms(model, {"input_ids": ids}, ids, chunk_bytes=4 * OUTPUTS * 8)
    first = next(blocks)
    before = [column.clone() for column in columns(first)]
    for block in blocks:
        for column in columns(block):
            column.zero_()
    assert all(torch.equal(column, copy) for column, copy in zip(columns(first), before, strict=True))
    assert bool((head_terms(model, {"input_ids": ids}, ids).activations[:4] == first.activations).all())


@pytest.mark.parametrize("name", ["plain", "capped", "divided"])
def test_drawn_labels_follow_the_models_distribution(name: str) -> None:
    draws = 20_000
    model = tiny(AFTER[name], spread=1.5, dtype=torch.float32)
    ids = torch.full((4, draws // 4 + 1), 5)
    terms = head_terms(model, {"input_ids": ids}, ids, "model", torch.Generator().manual_seed(4))
    drawn = terms.errors.argmin(dim=1).bincount(minlength=OUTPUTS).double()  # only e_y is negative
    expected = model(ids[:1, :1]).logits[0, 0].detach().double().softmax(dim=0) * draws
    assert float(expected.min()) > 20  # the reference distribution needs filled cells
    statistic = float(((drawn - expected) ** 2 / expected).sum())
    assert statistic < 29.6  # 0.999 quantile of chi-square with 10 degrees of freedom
    again = head_terms(model, {"input_ids": ids}, ids, "model", torch.Generator().manual_seed(4))
    other = head_terms(model, {"input_ids": ids}, ids, "model", torch.Generator().manual_seed(5))
    assert torch.equal(again.errors, terms.errors) and not torch.equal(other.errors, terms.errors)


def test_drawn_labels_leave_global_randomness_alone() -> None:
    model, ids = tiny(), text()
    before = torch.get_rng_state()
    head_terms(model, {"input_ids": ids}, ids, "model", torch.Generator().manual_seed(4))
    assert torch.equal(torch.get_rng_state(), before)


def test_model_labels_skip_what_data_labels_skip() -> None:
    model, ids = tiny(), text()
    labels = ids.clone()
    labels[0, 2:5] = -100
    data = head_terms(model, {"input_ids": ids}, labels)
    drawn = head_terms(model, {"input_ids": ids}, labels, "model", torch.Generator().manual_seed(4))
    assert torch.equal(data.activations, drawn.activations) and len(data.errors) == 9


@pytest.mark.parametrize("label_mode", ["data", "model"])
def test_labels_are_those_that_the_errors_hold(label_mode: str) -> None:
    model, ids = tiny(), text()
    labels = ids.clone()
    labels[0, 2:5] = -100
    generator = torch.Generator().manual_seed(4) if label_mode == "model" else None
    terms = head_terms(model, {"input_ids": ids}, labels, label_mode, generator)
    assert torch.equal(terms.labels, terms.errors.argmin(dim=1))  # only e_y is negative
    if label_mode == "data":
        assert torch.equal(terms.labels, labels[:, 1:][labels[:, 1:] != -100])


def test_nothing_kept_gives_nothing() -> None:
    model, ids = tiny(), text()
    skipped = torch.full_like(ids, -100)
    terms = head_terms(model, {"input_ids": ids}, skipped)
    assert terms.activations.shape == (0, DIM) and terms.errors.shape == (0, OUTPUTS)
    assert list(iter_head_terms(model, {"input_ids": ids}, skipped)) == []
    assert head_terms(model, {"input_ids": ids[:, :1]}, ids[:, :1]).group.shape == (0,)


def test_forward_pass_has_no_cache_and_no_gradient() -> None:
    model, ids = tiny(), text()
    head_terms(model, {"input_ids": ids}, ids)
    assert model.seen == {"use_cache": False, "grad": False}
    assert torch.is_grad_enabled()
    assert all(parameter.grad is None for parameter in model.parameters())


def test_classifier_heads() -> None:
    inputs, labels = classes(5)
    torch.manual_seed(0)
    for head in (
        nn.Linear(DIM, 3),
        nn.Sequential(nn.Flatten(), nn.Linear(DIM, 3)),
        nn.Linear(DIM, 3, bias=False),
    ):
        model = Classifier(head).eval()
        terms = head_terms(model, inputs, labels, group=[3, 3, 4, 4, 5])
        expected = model(inputs["x"]).softmax(dim=1) - nn.functional.one_hot(labels, 3)
        assert torch.allclose(terms.errors, expected, atol=1e-6)
        assert terms.group.tolist() == [3, 3, 4, 4, 5]


class ScaledLinear(nn.Linear):
    """A linear layer with a learned scale of its outputs."""

    def __init__(self) -> None:
        super().__init__(DIM, OUTPUTS)
        self.scale = nn.Parameter(torch.ones(OUTPUTS))

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input) * self.scale


class SquaredLinear(nn.Linear):
    """A subclass that is not linear."""

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input) ** 2


@pytest.mark.parametrize(
    ("head", "message"),
    [
        (
            nn.Sequential(nn.Linear(DIM, 8), nn.ReLU(), nn.Linear(8, 3)),
            "the output head of Classifier is a Sequential, not a plain linear layer",
        ),
        (nn.Identity(), "the output head of Classifier is a Identity, not a plain linear layer"),
        (nn.Bilinear(DIM, DIM, 3), "is a Bilinear, not a plain linear layer"),
        (ScaledLinear(), "is a ScaledLinear, not a plain linear layer"),
        (SquaredLinear(DIM, OUTPUTS), r"a SquaredLinear, does not return W a \+ b \(off by"),
        (nn.Linear(DIM, OUTPUTS, device="meta"), "has no weight in memory"),
    ],
)
def test_head_that_is_not_linear_is_refused(head: nn.Module, message: str) -> None:
    inputs, labels = classes(3)
    with pytest.raises(FisherSketchError, match=message):
        head_terms(Classifier(head).eval(), inputs, labels)


def test_model_without_a_head_is_refused() -> None:
    with pytest.raises(FisherSketchError, match="Dropout has no output head that can be found"):
        output_head(nn.Dropout())


def test_head_altered_by_a_hook_is_refused() -> None:
    model, ids = tiny(), text()
    model.lm_head.register_forward_hook(lambda module, args, output: output + 0.1)
    with pytest.raises(
        FisherSketchError, match=r"does not return W a \+ b \(off by 0.1\): remove what alters it"
    ):
        head_terms(model, {"input_ids": ids}, ids)


def test_training_mode_is_refused() -> None:
    model, ids = tiny(), text()
    model.train()
    with pytest.raises(FisherSketchError, match=r"TinyLM is in training mode, .* call model.eval\(\)"):
        head_terms(model, {"input_ids": ids}, ids)
    model.eval()
    model.embed.train()
    with pytest.raises(FisherSketchError, match=r"TinyLM \(its embed\) is in training mode"):
        head_terms(model, {"input_ids": ids}, ids)


@pytest.mark.parametrize("value", [OUTPUTS, -1, -7])
def test_label_out_of_range_is_refused(value: int) -> None:
    model, ids = tiny(), text()
    labels = ids.clone()
    labels[1, 4] = value
    message = rf"label {value} predicted at batch row 1, position 3 is outside \[0, {OUTPUTS}\)"
    with pytest.raises(FisherSketchError, match=message):
        head_terms(model, {"input_ids": ids}, labels)
    labels[1, 4] = ids[1, 4]
    labels[:, 0] = value  # predicted by nothing
    assert len(head_terms(model, {"input_ids": ids}, labels).errors) == 12


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label_mode": "true"}, "label_mode='true': choose data or model"),
        ({"label_mode": "model"}, "label_mode='model' draws labels: give a generator"),
        ({"generator": torch.Generator()}, "label_mode='data' draws nothing: leave the generator out"),
        ({"labels": text().float()}, "labels are torch.float32: give integers"),
        ({"labels": text().unsqueeze(0)}, r"labels have shape \(1, 2, 7\)"),
        ({"labels": text(2, 5)}, r"reads inputs of shape \(2, 7, 6\), but labels have shape \(2, 5\)"),
        (
            {"labels": torch.tensor([1, 2])},
            r"reads inputs of shape \(2, 7, 6\), but labels have shape \(2,\)",
        ),
        ({"group": [1]}, r"group has shape \(1,\): give one id a row of the batch, \(2,\)"),
        ({"group": [0.5, 1.5]}, "group ids are torch.float32: give integers"),
        ({"inputs": {"labels": text()}}, "inputs hold labels"),
        ({"inputs": {"attention_mask": torch.ones(2, 1, 7, 7)}}, r"attention_mask is \(2, 1, 7, 7\)"),
        ({"inputs": {"attention_mask": {"full": None}}}, "attention_mask is dict"),
        (
            {"inputs": {"position_ids": torch.zeros(3, 2, 7, dtype=torch.int64)}},
            r"position_ids are \(3, 2, 7\)",
        ),
        ({"inputs": {"seq_idx": torch.zeros(2, 7)}}, "seq_idx without position_ids"),
    ],
)
def test_request_that_does_not_fit_is_refused(change: dict[str, Any], message: str) -> None:
    request = {"labels": text(), **change}
    inputs = {"input_ids": text(), **request.pop("inputs", {})}
    with pytest.raises(FisherSketchError, match=message):
        head_terms(tiny(), inputs, **request)


def test_text_labels_need_a_language_model() -> None:
    model = Classifier(nn.Linear(DIM, 3)).eval()
    with pytest.raises(
        FisherSketchError, match=r"labels \(B, T\) need a causal language model .* Classifier has none"
    ):
        head_terms(model, {"x": torch.zeros(2, 7, 4)}, text())


def test_head_that_does_not_run_once_is_refused() -> None:
    model, ids = tiny(), text()
    head = model.lm_head
    model.after = lambda raw: raw + head(torch.zeros(1, 1, DIM, dtype=torch.float64))
    with pytest.raises(FisherSketchError, match="the output head of TinyLM runs 2 times in a forward pass"):
        head_terms(model, {"input_ids": ids}, ids)
    model.lm_head = nn.Linear(DIM, OUTPUTS).double().eval()
    model.get_output_embeddings = lambda: head  # type: ignore[method-assign]
    model.after = lambda raw: raw
    with pytest.raises(FisherSketchError, match="runs 0 times in a forward pass"):
        head_terms(model, {"input_ids": ids}, ids)
    assert len(head._forward_hooks) == len(head._forward_pre_hooks) == 0


def test_hooks_are_gone_after_a_failure_of_the_model() -> None:
    model, ids = tiny(), text()

    def fail(raw: Tensor) -> Tensor:
        raise KeyError("the model's own mistake")

    model.after = fail
    with pytest.raises(KeyError, match="own mistake"):
        head_terms(model, {"input_ids": ids}, ids)
    assert len(model.lm_head._forward_hooks) == len(model.lm_head._forward_pre_hooks) == 0


def test_values_that_are_not_finite_are_placed() -> None:
    ids = torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8]])
    model = tiny(dtype=torch.float16)
    with torch.no_grad():
        model.embed.weight[6] = torch.inf
    place = "activations that are not finite at batch row 1, position 1: its embed.weight holds NaN or inf"
    with pytest.raises(FisherSketchError, match=place):
        head_terms(model, {"input_ids": ids}, ids)
    model = tiny(dtype=torch.float32)
    with torch.no_grad():
        model.lm_head.weight.fill_(torch.nan)  # type: ignore[operator]
    place = "TinyLM gives logits that are not finite at batch row 0, position 0: its head's weight holds NaN"
    with pytest.raises(FisherSketchError, match=place):
        head_terms(model, {"input_ids": ids}, ids)
    model = tiny(dtype=torch.float32)
    with torch.no_grad():
        model.embed.weight[3] = 3e38
        model.lm_head.weight[0] = 2.0  # type: ignore[operator]
    place = "logits that are not finite at batch row 0, position 2"
    with pytest.raises(FisherSketchError, match=place):
        next(iter_head_terms(model, {"input_ids": ids}, ids))


def test_sizes_beyond_the_bounds_are_refused() -> None:
    model, ids = tiny(), text()
    with pytest.raises(FisherSketchError, match="chunk_bytes=80: one position takes 88 bytes"):
        iter_head_terms(model, {"input_ids": ids}, ids, chunk_bytes=80)
    wide = TinyLM(outputs=300_000).eval()
    ids = torch.zeros(8, 1001, dtype=torch.int64)
    message = (
        r"errors of 8000 positions over 300000 outputs would take 8.9 GiB: stream them with iter_head_terms"
    )
    with pytest.raises(FisherSketchError, match=message):
        head_terms(wide, {"input_ids": ids}, ids)


MEMORY = """
import resource
import torch
from test_head import AFTER, TinyLM
from fishersketch.head import iter_head_terms

def stream(model, ids, generator=None):
    mode = "data" if generator is None else "model"
    for terms in iter_head_terms(model, {"input_ids": ids}, ids, mode, generator, chunk_bytes=8 << 20):
        yield float(terms.errors.square_().sum())

torch.manual_seed(0)
plain = TinyLM(outputs=65536).eval()
capped = TinyLM(AFTER["capped"], outputs=65536).eval().bfloat16()
ids = torch.randint(0, 65536, (2, 513))
list(stream(plain, ids[:1, :3]))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
total = sum(stream(plain, ids)) + sum(stream(capped, ids))
total += sum(stream(plain, ids, torch.Generator().manual_seed(1)))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, total)
"""


def test_peak_memory_is_a_few_chunks() -> None:
    here = Path(__file__).parent
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(here.parent), str(here)])}
    run = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, env=environment)
    assert run.returncode == 0, run.stderr
    kilobytes, total = run.stdout.split()
    assert float(total) > 0
    # The batch's logits take 256 MiB, a block 8 MiB: two to three blocks here, and the caller's last one.
    assert int(kilobytes) < 96 * 1024, kilobytes


def test_no_warning_and_no_state_left() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model, ids = tiny(), text()
        state = {name: value.clone() for name, value in model.state_dict().items()}
        head_terms(model, {"input_ids": ids}, ids)
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
