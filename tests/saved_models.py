"""Random models in transformers folders and word-level tokenizers, made on the spot."""

from pathlib import Path

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

WORDS = 200


def word_tokenizer(*, adds_bos: bool) -> PreTrainedTokenizerFast:
    """A tokenizer of the words w0, w1, ...; <s> has id 0."""
    words = ["<s>", "<unk>", *(f"w{number}" for number in range(WORDS))]
    backend = Tokenizer(WordLevel({word: index for index, word in enumerate(words)}, unk_token="<unk>"))
    backend.pre_tokenizer = Whitespace()
    if adds_bos:
        backend.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    return PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", unk_token="<unk>")


def save_tiny_llama(folder: Path, seed: int = 0) -> Path:
    """Writes a two-layer Llama with random weights and its tokenizer."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=WORDS + 2,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=128,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    word_tokenizer(adds_bos=True).save_pretrained(folder)
    return folder
