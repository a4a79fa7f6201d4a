"""Tiny random language models and Markov-chain domains; run as a module, one fine-tuning process."""

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from experiments.domains.base import Domain
from experiments.draws import uniforms
from experiments.models.base import LoadedModel

CPU = torch.device("cpu")
VOCABULARY = 61


def tiny(family: str, dtype: torch.dtype = torch.float32) -> Any:
    """Returns a two-layer causal language model in evaluation mode, the same weights at every call."""
    import transformers

    common = {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 64,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    configs = {
        "llama": lambda: transformers.LlamaConfig(**common, tie_word_embeddings=True),
        "untied": lambda: transformers.LlamaConfig(**common, tie_word_embeddings=False),
        "gemma2": lambda: transformers.Gemma2Config(
            **common, head_dim=8, final_logit_softcapping=0.5, sliding_window=32
        ),
        "granite": lambda: transformers.GraniteConfig(**common, logits_scaling=0.25),
        "gpt2": lambda: transformers.GPT2Config(
            vocab_size=VOCABULARY,
            n_embd=32,
            n_layer=2,
            n_head=4,
            n_positions=64,
            bos_token_id=1,
            eos_token_id=2,
        ),
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return transformers.AutoModelForCausalLM.from_config(configs[family](), dtype=dtype).eval()


def loaded(family: str, dtype: torch.dtype = torch.float32) -> LoadedModel:
    """Returns a tiny model as the experiments hand it around."""
    return LoadedModel(
        name="tiny",
        model=tiny(family, dtype),
        tokenizer=None,
        fingerprint=f"{family} {dtype}",
        tokenizer_fingerprint="",
        device=CPU,
        vocabulary_size=VOCABULARY,
        context_length=64,
    )


def markov_domain(
    name: str, seed: int, train: int = 10, held_out: int = 4, window_tokens: int = 12
) -> Domain:
    """Returns windows of a Markov chain whose transitions are drawn for its name and seed."""
    logits = 6 * uniforms(f"chain {name}", seed, (VOCABULARY, VOCABULARY)) ** 4
    cumulative = np.cumsum(np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True), axis=1)
    draws = uniforms(f"walk {name}", seed, (train + held_out, window_tokens + 1))
    tokens = np.zeros(draws.shape, dtype=np.int64)
    tokens[:, 0] = (draws[:, 0] * VOCABULARY).astype(np.int64)
    for t in range(1, draws.shape[1]):
        tokens[:, t] = np.minimum(
            (cumulative[tokens[:, t - 1]] < draws[:, t, None]).sum(axis=1), VOCABULARY - 1
        )
    windows = torch.from_numpy(tokens)
    return Domain(name, "chains", "drawn", "none", windows[:train], windows[:train], windows[train:])


def main(folder: Path, cache: str, name: str, count: int) -> None:
    """Fine-tunes a tiny model on ``count`` domains and writes the losses to ``<name>.npy``."""
    os.environ["FISHERSKETCH_CACHE"] = str(folder / cache)
    from experiments.finetune import TransferConfig, transfer_matrix
    from experiments.store import Store

    domains = [markov_domain(f"domain {k}", k) for k in range(count)]
    with Store(folder / name, {}, name) as store:
        cfg = TransferConfig(mode="full", learning_rate=3e-3, epochs=40)
        np.save(folder / f"{name}.npy", transfer_matrix(cfg, loaded("llama"), domains, store).tuned_loss)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]))
