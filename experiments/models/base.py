"""What every kind of model builds."""

import json
from dataclasses import dataclass
from typing import Any

import torch

from experiments.errors import UserError
from experiments.failures import summary
from experiments.hashes import short_hash

DTYPES = {
    "float32": torch.float32,
    "float64": torch.float64,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}
# Of the largest logit: what summing two rows of a batch in other orders may round.
_ROUNDING = {torch.float32: 1e-4, torch.bfloat16: 0.05, torch.float16: 0.01}


@dataclass(frozen=True)
class LoadedModel:
    """A model in evaluation mode with what is needed to feed it and to name its results.

    Attributes:
        name: Name in tables and figures.
        model: The model, ``requires_grad`` as loaded.
        tokenizer: Its tokenizer, or None for a model of images.
        fingerprint: Hash of what determines the weights.
        tokenizer_fingerprint: Hash of the tokenizer; empty without one.
        device: Where inputs go.
        vocabulary_size: Outputs of the head, K.
        context_length: Longest input, in tokens; None where the model has no limit.
    """

    name: str
    model: torch.nn.Module
    tokenizer: Any | None
    fingerprint: str
    tokenizer_fingerprint: str
    device: torch.device
    vocabulary_size: int
    context_length: int | None


def loaded_causal_lm(name: str, model: Any, tokenizer: Any, fingerprint: str) -> LoadedModel:
    """Returns a transformers causal language model with the facts that its config and tokenizer give.

    Raises:
        UserError: The model looks ahead, as an encoder does.
    """
    text_config = model.config.get_text_config()
    _refuse_looking_ahead(f"model.name={name}", model.eval())
    return LoadedModel(
        name=name,
        model=model,
        tokenizer=tokenizer,
        fingerprint=fingerprint,
        tokenizer_fingerprint=tokenizer_fingerprint(tokenizer),
        device=model.get_input_embeddings().weight.device,
        vocabulary_size=model.get_output_embeddings().weight.shape[0],
        context_length=getattr(text_config, "max_position_embeddings", None),
    )


def read_causal_lm(
    source: str, where: str, dtype: str, device_map: str | None = None, **where_from: Any
) -> tuple[Any, Any]:
    """Reads a causal language model and its tokenizer with transformers, running no code of their own.

    Args:
        source: Folder, or name on the hub.
        where: Dotted key and value of the source, for errors.
        dtype: Number format of the weights, one of `DTYPES`.
        device_map: As transformers has it.
        **where_from: Further arguments of both `from_pretrained`.

    Returns:
        The model and the tokenizer.

    Raises:
        UserError: It cannot be read, is kept as a pickle, or some of its weights are missing.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    where_from["trust_remote_code"] = False
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, **where_from)
        both: Any = AutoModelForCausalLM.from_pretrained(
            source,
            dtype=DTYPES[dtype],
            device_map=device_map,
            output_loading_info=True,
            use_safetensors=True,
            **where_from,
        )
    except Exception as error:  # a broken file may raise anything inside transformers
        raise UserError(f"{where}: cannot be loaded: {_reason(error)}") from error
    model, report = both
    # transformers fills missing weights with random numbers and a warning.
    if report["missing_keys"]:
        raise UserError(f"{where}: lacks the weights {', '.join(sorted(report['missing_keys'])[:3])}")
    return model, tokenizer


def tokenizer_fingerprint(tokenizer: Any) -> str:
    """Returns a hash of all that a tokenizer does: its serialised form, or its vocabulary if it has none."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    return short_hash(
        backend.to_str() if backend is not None else json.dumps(sorted(tokenizer.get_vocab().items()))
    )


def _reason(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines or isinstance(error, KeyError | TypeError | AttributeError):
        return f"its files are not as save_pretrained writes them ({summary(error)})"
    if "ignore_mismatched_sizes" in lines[0]:
        return "its weights have other shapes than its config.json says"
    if "backend tokenizer" in lines[0]:
        return "there is no tokenizer beside its weights"
    if "model.safetensors" in lines[0]:
        return f"{lines[0].rstrip('.')}; weights are read from safetensors alone, so convert others to it"
    return " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]


@torch.no_grad()
def _refuse_looking_ahead(where: str, model: Any) -> None:
    """Compares the logits at a token under two tokens that may follow it.

    Raises:
        UserError: They differ.
    """
    weight = model.get_input_embeddings().weight
    ids = torch.tensor([[0, 1], [0, 2]], device=weight.device)
    first, second = model(input_ids=ids, use_cache=False).logits[:, 0].float()
    if float((first - second).abs().max()) > _ROUNDING.get(weight.dtype, 1e-4) * float(first.abs().max()):
        raise UserError(
            f"{where}: what it predicts depends on the token to predict; give a causal language model"
        )
