"""Inner layers and whole networks: terms, exact kernels, decomposition, sketch, independence."""

import pytest
import torch
from fisher_tasks import grouped_task
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

from fishersketch import FisherSketchError, exact_align
from fishersketch.gradient_kernels import gradient_kernels
from fishersketch.independence import independence_test
from fishersketch.layers import layer_terms, linear_layers, summed_loss
from fishersketch.network_alignment import network_alignment
from fishersketch.network_sketch import LayerShape, NetworkSketch, align_networks


class Mlp(nn.Module):
    """Two linear layers; a classifier whose loss is of its last one."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(3, 4), nn.Linear(4, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x).tanh())


def mlp() -> Mlp:
    torch.manual_seed(0)
    return Mlp().double().eval()


def classified(count: int, seed: int = 0) -> list[tuple[dict, torch.Tensor]]:
    draws = torch.Generator().manual_seed(seed)
    return [
        (
            {"x": torch.randn(1, 3, generator=draws, dtype=torch.float64) + n % 3},
            torch.randint(5, (1,), generator=draws),
        )
        for n in range(count)
    ]


def llama() -> LlamaForCausalLM:
    torch.manual_seed(0)
    return (
        LlamaForCausalLM(
            LlamaConfig(
                vocab_size=31,
                hidden_size=8,
                intermediate_size=12,
                num_hidden_layers=2,
                num_attention_heads=2,
                tie_word_embeddings=False,
            )
        )
        .double()
        .eval()
    )


def gradients(model: nn.Module, samples: list, name: str) -> torch.Tensor:
    """(S, P) by autograd, one backward pass a sample."""
    parameter = dict(model.named_parameters())[name]
    return torch.stack([torch.autograd.grad(summed_loss(model, *s), parameter)[0].flatten() for s in samples])


def test_terms_sum_to_the_gradient_of_every_linear_layer():
    model = llama()
    tokens = torch.randint(31, (3, 9), generator=torch.Generator().manual_seed(1))
    labels = tokens.clone()
    labels[1, 4:] = -100
    mask = torch.ones_like(tokens)
    mask[2, :3] = 0
    inputs = {"input_ids": tokens, "attention_mask": mask}
    layers = linear_layers(model)
    assert len(layers) == 2 * 7 + 1
    terms = layer_terms(model, inputs, labels, layers)
    summed_loss(model, inputs, labels).backward()
    for name, layer in layers.items():
        activations, errors = terms[name]
        total = torch.einsum("bto,bti->oi", errors, activations)
        assert (total - layer.weight.grad).abs().max() <= 1e-10 * layer.weight.grad.abs().max()


def test_layers_are_chosen_by_pattern_and_misses_are_named():
    model = llama()
    assert list(linear_layers(model, ["*.1.mlp.down_proj", "lm_head"])) == [
        "model.layers.1.mlp.down_proj",
        "lm_head",
    ]
    with pytest.raises(FisherSketchError, match=r"no linear layer is named \*\.conv"):
        linear_layers(model, ["*.conv"])
    unused = nn.ModuleDict({"used": mlp(), "idle": nn.Linear(2, 2)})
    with pytest.raises(FisherSketchError, match="layer idle takes no part in the loss"):
        layer_terms(unused["used"], classified(1)[0][0], torch.tensor([1]), {"idle": unused["idle"]})


@pytest.mark.parametrize("chunk_bytes", [1, 700, 1 << 20])
def test_kernels_are_those_of_the_gradients_whatever_the_chunk(chunk_bytes):
    model, samples = mlp(), classified(7)
    parameters = dict(model.named_parameters())
    if chunk_bytes == 1:
        parameters = {"body.bias": parameters["body.bias"]}
    steps = []
    kernels = gradient_kernels(
        model, samples, parameters, chunk_bytes, lambda done, total: steps.append(total - done)
    )
    for name, kernel in kernels.items():
        rows = gradients(model, samples, name)
        torch.testing.assert_close(kernel, rows @ rows.T, rtol=1e-12, atol=1e-12)
    assert steps[-1] == 0 and steps == sorted(steps, reverse=True)


def test_network_alignment_is_the_cosine_of_the_fisher_matrices():
    model, samples = mlp(), classified(12)
    names = [name for name, _ in model.named_parameters()]
    rows = torch.cat([gradients(model, samples, name) for name in names], 1)
    task, half = torch.arange(12) % 3, torch.arange(12) // 3 % 2
    table = network_alignment(
        gradient_kernels(model, samples, dict(model.named_parameters())), task, half, "plain"
    )
    fishers = [rows[task == t].T @ rows[task == t] / 4 for t in range(3)]
    sizes = [parameter.numel() for parameter in model.parameters()]
    inside = torch.block_diag(*[torch.ones(size, size) for size in sizes])
    for i in range(3):
        for j in range(i):
            whole, kept = ([f * m for f in (fishers[i], fishers[j])] for m in (1, inside))
            for found, pair in ((table.network, whole), (table.block_diagonal, kept)):
                cosine = (pair[0] * pair[1]).sum() / (pair[0].norm() * pair[1].norm())
                assert found[i, j] == pytest.approx(float(cosine), abs=1e-12)
            dropped = 1 - (kept[0] * kept[1]).sum() / (whole[0] * whole[1]).sum()
            assert table.discrepancy[i, j] == pytest.approx(float(dropped), abs=1e-12)
    assert table.discrepancy[0, 0] == pytest.approx(
        1 - float((fishers[0] * inside).norm() ** 2 / fishers[0].norm() ** 2), abs=1e-12
    )


@pytest.mark.parametrize("seed", range(20))
def test_what_the_decomposition_says_holds(seed):
    draws = torch.Generator().manual_seed(seed)
    scales = torch.rand(4, generator=draws) * 3
    rows = [scale * torch.randn(20, 6, generator=draws, dtype=torch.float64) for scale in scales]
    rows[1] = rows[0] + 0.3 * rows[1]  # blocks that share directions have an inner product between them
    task, half = torch.arange(20) % 4, torch.arange(20) // 4 % 2
    table = network_alignment({str(n): r @ r.T for n, r in enumerate(rows)}, task, half, "plain")
    weighted = torch.einsum("ib,jb,bij->ij", table.profiles, table.profiles, table.blocks)
    torch.testing.assert_close(table.block_diagonal, weighted, rtol=1e-10, atol=1e-10)
    low, high = (table.blocks.amin(0), table.blocks.amax(0))
    assert bool((table.block_diagonal >= low * table.profile_cosine - 1e-12).all())
    assert bool((table.block_diagonal <= high * table.profile_cosine + 1e-12).all())
    assert bool((table.network >= table.lower - 1e-12).all())
    assert bool((table.network <= table.upper + 1e-12).all())
    assert bool((table.discrepancy.diagonal() >= 0).all())


def test_split_self_terms_leave_no_sample_to_meet_itself():
    rows = torch.randn(400, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    task, half = torch.arange(400) % 2, torch.arange(400) // 2 % 2
    kernel = {"all": rows @ rows.T}
    split, plain = (network_alignment(kernel, task, half, terms) for terms in ("split", "plain"))
    assert plain.network[0, 1] < split.network[0, 1] < 1.1
    with pytest.raises(FisherSketchError, match="task 0 has no samples in a half"):
        network_alignment(kernel, task, torch.ones_like(half), "split")


@pytest.mark.parametrize("projection", ["rademacher", "block_hadamard"])
def test_the_network_sketch_is_unbiased(projection):
    model, samples = mlp(), classified(6, seed=1)
    layers = linear_layers(model)
    weights = {f"{name}.weight": layer.weight for name, layer in layers.items()}
    kernels = gradient_kernels(model, samples, weights)
    whole = torch.stack(list(kernels.values())).sum(0)
    pairs = ((0, 2, 4), (1, 3, 5))
    true = {"network": whole, "body": kernels["body.weight"], "head": kernels["head.weight"]}
    found = {name: [] for name in true}
    for seed in range(60):
        means = []
        for members in pairs:
            sketch = NetworkSketch(
                {name: LayerShape(layer.in_features, layer.out_features) for name, layer in layers.items()},
                64,
                projection,
                seed,
            )
            for number, member in enumerate(members):
                sketch.update(layer_terms(model, *samples[member], layers), number)
            means.append(sketch.means()[0])
        for index, name in enumerate(("body", "head", "network")):
            found[name].append(float(means[0][index] @ means[1][index]) / 64)
    for name, values in found.items():
        exact = float(true[name][list(pairs[0])][:, list(pairs[1])].square().mean())
        estimates = torch.tensor(values)
        error = estimates.std() / len(values) ** 0.5
        assert abs(float(estimates.mean()) - exact) < 4 * float(error), name
        assert float(error) < 0.1 * exact


def test_a_sketch_of_batches_is_that_of_single_sequences():
    model = llama()
    layers = linear_layers(model, ["*.mlp.*", "lm_head"])
    shapes = {name: LayerShape(layer.in_features, layer.out_features) for name, layer in layers.items()}
    tokens = torch.randint(31, (4, 7), generator=torch.Generator().manual_seed(1))
    made = []
    for size in (1, 4):
        sketch = NetworkSketch(shapes, 32)
        for start in range(0, 4, size):
            batch = tokens[start : start + size]
            sketch.update(layer_terms(model, {"input_ids": batch}, batch, layers), start)
        made.append(sketch)
    torch.testing.assert_close(made[0].means(), made[1].means(), rtol=1e-10, atol=1e-12)
    assert made[0].state_bytes == 2 * 8 * 32 * 8
    assert align_networks(made, "plain")["network"][0, 1] == pytest.approx(1)
    with pytest.raises(FisherSketchError, match="different layers or features"):
        align_networks([made[0], NetworkSketch(shapes, 16)])
    with pytest.raises(FisherSketchError, match="must be one of rademacher, block_hadamard"):
        NetworkSketch(shapes, 32, "hadamard")


def test_the_gap_is_the_exact_one_and_its_null_lies_below_where_errors_depend_on_activations():
    activations, errors, group = grouped_task(0)
    found = independence_test(activations, errors, group, 199, torch.Generator().manual_seed(0))
    table = exact_align([(activations, errors, group)])
    assert found.squared_gap == pytest.approx(float(table.squared_gap[0]), rel=1e-9)
    tied = torch.cat([activations, errors], 1)
    strong = independence_test(tied, tied, group, 199, torch.Generator().manual_seed(0))
    assert strong.p == pytest.approx(1 / 200) and strong.squared_gap > strong.null.max()


def test_independent_errors_are_called_dependent_as_rarely_as_the_level_says():
    draws = torch.Generator().manual_seed(0)
    low = 0
    for _ in range(100):
        activations = torch.randn(24, 3, generator=draws)
        errors = torch.randn(24, 4, generator=draws)
        low += independence_test(activations, errors, torch.arange(24), 99, draws).p <= 0.05
    assert low <= 12
