"""Terms of real architectures against autograd: sum_t e_t a_t^T is the gradient of an untied head weight."""

import copy
import inspect
from typing import Any

import pytest
import torch
from torch import nn

from fishersketch.head import head_terms, output_head

VOCABULARY = 101
LLAMA_LIKE: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 32,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
# The grouped matrix product of experts has no float64, the plain one does.
EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2, "experts_implementation": "eager"}
# name: (architecture, options, whether something follows the head)
CAUSAL: dict[str, tuple[str, dict[str, Any], bool]] = {
    "llama_tied": ("Llama", {**LLAMA_LIKE, "tie_word_embeddings": True}, False),
    "llama_untied": ("Llama", {**LLAMA_LIKE, "tie_word_embeddings": False}, False),
    "gpt2": (
        "GPT2LMHead",
        {"vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 32},
        False,
    ),
    "gemma2_softcap": ("Gemma2", {**LLAMA_LIKE, "final_logit_softcapping": 4.0}, True),
    "granite_scaling": ("Granite", {**LLAMA_LIKE, "logits_scaling": 6.0}, True),
    "cohere_scale": ("Cohere", {**LLAMA_LIKE, "logit_scale": 0.0625}, True),
    "falcon_h1_multiplier": (
        "FalconH1",
        {**LLAMA_LIKE, "lm_head_multiplier": 0.3, "mamba_d_ssm": 32, "mamba_n_heads": 4, "mamba_d_head": 8},
        True,
    ),
    "opt_projected": (
        "OPT",
        {
            "vocab_size": VOCABULARY,
            "hidden_size": 32,
            "word_embed_proj_dim": 20,
            "ffn_dim": 48,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "max_position_embeddings": 32,
        },
        False,
    ),
    "phi_bias": ("Phi", {k: v for k, v in LLAMA_LIKE.items() if k != "head_dim"}, False),
    "gpt_neox": ("GPTNeoX", {k: v for k, v in LLAMA_LIKE.items() if k != "head_dim"}, False),
    "qwen3": ("Qwen3", LLAMA_LIKE, False),
    "mamba": (
        "Mamba",
        {"vocab_size": VOCABULARY, "hidden_size": 32, "state_size": 4, "num_hidden_layers": 2},
        False,
    ),
    "mixtral": ("Mixtral", {**LLAMA_LIKE, **EXPERTS}, False),
}
IMAGE = ["test_vit", "test_resnet", "test_convnext", "mobilenetv3_small_050"]


def causal_model(name: str, dtype: torch.dtype) -> nn.Module:
    import transformers

    architecture, options, _ = CAUSAL[name]
    torch.manual_seed(0)
    config = getattr(transformers, f"{architecture.removesuffix('LMHead')}Config")(**options)
    suffix = "Model" if architecture.endswith("LMHead") else "ForCausalLM"
    model = getattr(transformers, f"{architecture}{suffix}")(config)
    head = model.get_output_embeddings()
    with torch.no_grad():
        head.weight.mul_(60.0)  # raw outputs large enough that a soft-cap bends them
        if head.bias is not None:
            head.bias.normal_()
    return model.eval().to(dtype)


def untied_gradient(
    model: nn.Module,
    head: nn.Module,
    inputs: dict,
    kept: torch.Tensor,
    targets: torch.Tensor,
    raw: bool = False,
) -> torch.Tensor:
    """Autograd's gradient of the summed loss in a copy of the head, cut off from the embeddings and the body.

    `raw` takes the head's raw outputs for logits, as if nothing followed the head.
    """
    weight = head.weight.detach().clone().requires_grad_()
    bias = None if head.bias is None else head.bias.detach()
    seen = []

    def untied(module: nn.Module, args: tuple, output: torch.Tensor) -> torch.Tensor:
        seen.append(nn.functional.linear(args[0].detach(), weight, bias))
        return seen[-1]

    handle = head.register_forward_hook(untied)
    try:
        output = model(**inputs)
    finally:
        handle.remove()
    logits = seen[0] if raw else getattr(output, "logits", output)
    nn.functional.cross_entropy(logits[kept], targets, reduction="sum").backward()
    assert weight.grad is not None
    return weight.grad


def text_batch() -> tuple[dict[str, torch.Tensor], torch.Tensor, torch.Tensor, torch.Tensor]:
    """Two rows, the second padded on the right, one label skipped; what is kept by a plain loop."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(3, VOCABULARY, (2, 9), generator=generator)
    mask = torch.ones_like(ids)
    mask[1, 6:] = 0
    labels = ids.clone()
    labels[0, 4] = -100
    kept, targets = torch.zeros_like(ids, dtype=torch.bool), []
    for row in range(2):
        for time in range(8):
            if mask[row, time] and mask[row, time + 1] and labels[row, time + 1] != -100:
                kept[row, time] = True
                targets.append(int(labels[row, time + 1]))
    return {"input_ids": ids, "attention_mask": mask}, labels, kept, torch.tensor(targets)


def relative(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float((found - expected).norm() / expected.norm())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("name", CAUSAL)
def test_terms_sum_to_the_head_gradient(name: str, dtype: torch.dtype) -> None:
    model = causal_model(name, dtype)
    inputs, labels, kept, targets = text_batch()
    terms = head_terms(model, inputs, labels)
    assert terms.activations.dtype == terms.errors.dtype == dtype
    assert terms.errors.shape == (13 - 1, VOCABULARY)
    assert not terms.errors.requires_grad and not terms.activations.requires_grad
    head = model.get_output_embeddings()
    gradient = untied_gradient(model, head, inputs, kept, targets)
    assert relative(terms.errors.T @ terms.activations, gradient) < (
        1e-5 if dtype == torch.float32 else 1e-10
    )
    assert len(head._forward_hooks) == len(head._forward_pre_hooks) == 0
    follows = CAUSAL[name][2]
    without = relative(untied_gradient(model, head, inputs, kept, targets, raw=True), gradient)
    assert (without > 0.05) == follows  # the check above would see a missed transform


def test_softcap_derivative_matters_in_this_check() -> None:
    model = causal_model("gemma2_softcap", torch.float64)
    inputs, labels, kept, targets = text_batch()
    terms = head_terms(model, inputs, labels)
    probabilities = model(**inputs).logits[kept].softmax(dim=1)
    probabilities[torch.arange(len(targets)), targets] -= 1.0
    assert relative(probabilities.detach(), terms.errors) > 0.05


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("name", IMAGE)
def test_image_classifiers(name: str, dtype: torch.dtype) -> None:
    import timm

    torch.manual_seed(0)
    model = timm.create_model(name, pretrained=False, num_classes=10).eval().to(dtype)
    images = torch.randn(4, 3, *model.default_cfg["input_size"][1:], dtype=dtype)
    argument = next(iter(inspect.signature(model.forward).parameters))
    labels = torch.tensor([3, -100, 9, 0])
    terms = head_terms(model, {argument: images}, labels)
    kept = labels != -100
    gradient = untied_gradient(model, model.get_classifier(), {argument: images}, kept, labels[kept])
    assert relative(terms.errors.T @ terms.activations, gradient) < (
        1e-5 if dtype == torch.float32 else 1e-10
    )
    assert terms.group.tolist() == [0, 2, 3]


def test_transformers_image_classifier() -> None:
    from transformers import ViTConfig, ViTForImageClassification

    torch.manual_seed(0)
    config = ViTConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        image_size=16,
        patch_size=8,
    )
    config.num_labels = 5
    model = ViTForImageClassification(config).eval()
    labels = torch.tensor([4, 1])
    inputs = {"pixel_values": torch.randn(2, 3, 16, 16)}
    terms = head_terms(model, inputs, labels)
    gradient = untied_gradient(model, model.classifier, inputs, torch.ones(2, dtype=torch.bool), labels)
    assert relative(terms.errors.T @ terms.activations, gradient) < 1e-5


def test_full_precision_outputs_of_a_bfloat16_model() -> None:
    model = causal_model("llama_untied", torch.bfloat16)
    inputs, labels, kept, targets = text_batch()
    terms = head_terms(model, inputs, labels)
    assert terms.errors.dtype == terms.activations.dtype == torch.float32
    hidden = model.model(**inputs).last_hidden_state[kept].detach()
    head = output_head(model)
    exact = (hidden.double() @ head.weight.detach().double().T).softmax(dim=1)
    exact[torch.arange(len(targets)), targets] -= 1.0
    assert relative(terms.errors.double(), exact) < 1e-5
    rounded = model(**inputs).logits[kept].detach().double().softmax(dim=1)
    rounded[torch.arange(len(targets)), targets] -= 1.0
    assert relative(rounded, exact) > 1e-3  # what rounding z to bfloat16 would cost


def test_softcap_of_a_bfloat16_model_is_carried_unrounded() -> None:
    model = causal_model("gemma2_softcap", torch.bfloat16)
    inputs, labels, kept, targets = text_batch()
    terms = head_terms(model, inputs, labels)
    hidden = model.model(**inputs).last_hidden_state[kept].detach().double()
    raw = (hidden @ output_head(model).weight.detach().double().T).requires_grad_()
    logits = torch.tanh(raw / 4.0) * 4.0
    nn.functional.cross_entropy(logits, targets, reduction="sum").backward()
    assert relative(terms.errors.double(), raw.grad) < 1e-5


def test_padding_on_either_side_gives_the_same_terms() -> None:
    model = causal_model("llama_untied", torch.float64)
    ids = torch.randint(3, VOCABULARY, (1, 6), generator=torch.Generator().manual_seed(2))
    plain = head_terms(model, {"input_ids": ids}, ids)
    pad = torch.zeros(1, 3, dtype=torch.int64)
    right = torch.cat([ids, pad], dim=1)
    mask = torch.cat([torch.ones_like(ids), pad], dim=1)
    left, left_mask = right.roll(3, dims=1), mask.roll(3, dims=1)
    padded_left = {
        "input_ids": left,
        "attention_mask": left_mask,
        "position_ids": (left_mask.cumsum(dim=1) - 1).clamp(min=0),
    }
    for inputs in ({"input_ids": right, "attention_mask": mask}, padded_left):
        terms = head_terms(model, inputs, inputs["input_ids"])
        assert terms.errors.shape == (5, VOCABULARY)
        assert relative(terms.errors, plain.errors) < 1e-10
        assert relative(terms.activations, plain.activations) < 1e-10
        assert terms.group.tolist() == [0] * 5


def test_packed_sequences_are_apart() -> None:
    model = causal_model("llama_untied", torch.float64)
    lengths = [4, 5, 3]
    ids = torch.randint(3, VOCABULARY, (1, sum(lengths)), generator=torch.Generator().manual_seed(3))
    positions = torch.cat([torch.arange(length) for length in lengths]).unsqueeze(0)
    packed = head_terms(model, {"input_ids": ids, "position_ids": positions}, ids)
    apart = [head_terms(model, {"input_ids": part}, part) for part in ids.split(lengths, dim=1)]
    assert packed.group.tolist() == [0] * 3 + [1] * 4 + [2] * 2
    assert relative(packed.errors, torch.cat([terms.errors for terms in apart])) < 1e-10
    assert relative(packed.activations, torch.cat([terms.activations for terms in apart])) < 1e-10


# peft asks transformers a question under its former name.
@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")
def test_adapter_in_the_head_is_refused_and_elsewhere_is_not() -> None:
    from peft import LoraConfig, get_peft_model

    from fishersketch.errors import FisherSketchError

    inputs, labels, _, _ = text_batch()
    base = causal_model("llama_untied", torch.float32)
    plain = head_terms(base, inputs, labels)
    adapted = get_peft_model(copy.deepcopy(base), LoraConfig(r=2, target_modules=["q_proj"])).eval()
    assert torch.allclose(head_terms(adapted, inputs, labels).errors, plain.errors, atol=1e-6)
    adapted = get_peft_model(copy.deepcopy(base), LoraConfig(r=2, target_modules=["lm_head"])).eval()
    with pytest.raises(
        FisherSketchError, match="output head of PeftModel is a Linear, not a plain linear layer"
    ):
        head_terms(adapted, inputs, labels)


def test_masked_and_encoder_decoder_models_are_refused() -> None:
    import transformers

    from fishersketch.errors import FisherSketchError

    inputs, labels, _, _ = text_batch()
    small = {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4}
    bert = transformers.BertForMaskedLM(transformers.BertConfig(**small, intermediate_size=48)).eval()
    with pytest.raises(FisherSketchError, match="BertForMaskedLM is no causal language model"):
        head_terms(bert, inputs, labels)
    config = transformers.T5Config(
        vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=48, num_layers=1, num_heads=4
    )
    with pytest.raises(FisherSketchError, match="T5ForConditionalGeneration is no causal language model"):
        head_terms(transformers.T5ForConditionalGeneration(config).eval(), inputs, labels)
