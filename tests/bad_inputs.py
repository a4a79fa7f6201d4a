"""What a user may get wrong, and the line that each mistake must give: regular expressions for whole lines.

Mistakes that belong to one part alone stand in the tests of that part: overrides and config files in
`test_config`, entries and formats in `test_domains_sources` and `test_select_formats`, signatures in
`test_signature_damage`, archives and downloads in `test_assets`, gains in `test_gains`.
"""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from saved_models import WORDS, word_tokenizer

TOO_SHORT = r": has \d+ tokens, but needs 96 \(64 to train on, 32 held out\); .*"

# Overrides of `python run.py`, and the line.
SETTINGS = [
    ("seed=1.0", r"seed=1\.0: must be an integer"),
    ("seed=1e3", r"seed=1000\.0: must be an integer"),
    ("seed={a:1}", r"seed=\{'a': 1\}: must be an integer"),
    ("store=null", "store=null: must not be null"),
    ("estimator=[1]", r"estimator=\[1\]: a group needs the name of a choice; see --help for what there is"),
    ("estimator.num_features=1e12", r"estimator\.num_features=1000000000000\.0: must be an integer"),
    ("estimator.exact_windows=1", r"estimator\.exact_windows=1: split self terms need a window of each .*"),
    ("estimator.exact_windows=-1", r"estimator\.exact_windows=-1: must be at least 0"),
    ("estimator.self_terms=half", r"estimator\.self_terms=half: must be one of split, plain"),
    ("estimator.signature=int2", r"estimator\.signature=int2: must be one of float32, int8, int4"),
    ("transfer.learning_rate=inf", r"transfer\.learning_rate=inf: must be finite"),
    ("transfer.learning_rate=nan", r"transfer\.learning_rate=nan: must be a number"),
    ("transfer.weight_decay=-1", r"transfer\.weight_decay=-1\.0: must be at least 0"),
    ("transfer.epochs=0", r"transfer\.epochs=0: must be at least 1"),
    ("transfer.mode=sgd", r"transfer\.mode=sgd: must be one of full, lora, head, none"),
    ("transfer.lora_rank=0", r"transfer\.lora_rank=0: must be at least 1"),
    ("transfer.seeds=[]", r"transfer\.seeds=\[\]: must be one seed or more, each once"),
    ("transfer.seeds=[0,0]", r"transfer\.seeds=\[0, 0\]: must be one seed or more, each once"),
    (
        "domains.sketch_windows=99",
        r"domains\.sketch_windows=99: must be at most domains\.train_windows=16",
    ),
    ("domains.limit=0", r"domains\.limit=0: must be at least 1"),
    ("+domains.entries.new=5", r"domains\.entries\.new\.kind: must be set, to one of django_po, .*"),
    ("+domains.entries.new.kind=local_text", r"domains\.entries\.new\.group: must be set"),
    ("settings.x=1", "settings.x=1: no such setting; known: none"),
    ("logger=nope", "logger=nope: no such choice; choose one of disabled, wandb"),
    ("logger.mode=nope", r"logger\.mode=nope: must be one of disabled, offline, online"),
    ("job=../x", r"job=\.\./x: must be one of .*"),
]

# Name and content of a file that a domain is read from, and the line behind its key.
TEXTS: list[tuple[str, bytes, str]] = [
    ("empty.txt", b"", TOO_SHORT),
    ("blank.txt", b"  \n\n \t \n", TOO_SHORT),
    ("repeated.txt", b"w1\n" * 5000, TOO_SHORT),
    ("endless_word.txt", b"x" * 100_000, TOO_SHORT),
    ("nul.txt", b"w1 \0 w2", r"\.path: .* holds binary data, not text; convert it or leave it out"),
    ("archive.txt", b"PK\x03\x04\0\0", r"\.path: .* holds binary data, not text; .*"),
    ("utf16.txt", "w1 w2".encode("utf-16"), r"\.path: .* is not UTF-8 text \(.*\); convert it"),
    ("mixed.txt", "é ".encode() + b"\xe9 w1", r"\.path: .* is not UTF-8 text \(.*\); convert it"),
    ("empty.txt.gz", gzip.compress(b""), TOO_SHORT),
    ("empty.jsonl", b"\n\n", TOO_SHORT),
    (
        "half.jsonl",
        b'{"text": "w1"}\n{"text": "w1 \\ud800 w2"}\n',
        r"\.path: .*half\.jsonl, line 2: holds \\ud800, half of a surrogate pair and no character; write .*",
    ),
    (
        "digits.jsonl",
        b'{"n": ' + b"1" * 5000 + b', "text": "w1"}\n',
        r"\.path: .*, line 1: not JSON that can be read \(Exceeds the limit .*\)",
    ),
    ("pretty.jsonl", b'[\n {"text": "w1"}\n]', r"\.path: .*, line 1: not JSON \(Expecting value at .*\)"),
    (
        "utf16.jsonl",
        '{"text": "w1"}'.encode("utf-16"),
        r"\.path: .*, line 1: not UTF-8 text \(.*\); convert it",
    ),
    ("empty.csv", b"", TOO_SHORT),
    ("header.csv", b"text\n", TOO_SHORT),
    (
        "short.csv",
        b"id,text\n1\n",
        r"\.field: .*, line 2: no field holds text; name the one to read",
    ),
    (
        "long.csv",
        b"id,text\n1,w1,w2\n",
        r"\.path: .*, line 2: has more cells than there are columns; put text with a delimiter in quotes",
    ),
    ("twice.csv", b"text,text\nw1,w2\n", r"\.path: .*twice\.csv: names a column twice; it has text, text"),
    ("quote.csv", b'id,text\n1,"w1\n', r"\.path: .*quote\.csv: not a table \(unexpected end of data\)"),
    ("nul.csv", b"id,text\n1,w1\0\n", r"\.path: .*, line 2: holds binary data, not text; convert it"),
    ("empty.parquet", b"", r"\.path: .*: not a whole Parquet file \(.*\)"),
]

# The path of a domain's file, and the line behind its key.
PATHS = [
    ("", r"\.path=: must be the name of a file or folder"),
    ("x" * 300, r"\.path=x{60}: no path of this machine \(File name too long\)"),
    ("~nobody-of-that-name/x", r"\.path=~nobody-of-that-name/x: no path of this machine \(.*\)"),
    ("w1\0.txt", r"\.path=w1\0\.txt: there is no such file or folder \(looked in .*\)"),
    ("/dev/zero", r"\.path=/dev/zero: there is no such file or folder \(looked in .*\)"),
]

HEAD, EMBEDDING, NORM = "lm_head.weight", "model.embed_tokens.weight", "model.norm.weight"
Damage = Callable[[Path], None]


def weights(change: Callable[[dict[str, torch.Tensor]], Any]) -> Damage:
    def damage(folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        change(tensors)
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})

    return damage


def config(**values: Any) -> Damage:
    """Sets fields of config.json; None takes one away."""

    def damage(folder: Path) -> None:
        held = json.loads((folder / "config.json").read_text()) | values
        kept = {key: value for key, value in held.items() if value is not None}
        (folder / "config.json").write_text(json.dumps(kept))

    return damage


def content(name: str, data: bytes) -> Damage:
    return lambda folder: (folder / name).write_bytes(data) and None


def cut(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-500])


def pickled(folder: Path) -> None:
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def without_tokenizer(folder: Path) -> None:
    for path in folder.glob("tokenizer*"):
        path.unlink()


def small(tensors: dict[str, torch.Tensor]) -> None:
    for name in (HEAD, EMBEDDING):
        tensors[name] = tensors[name][:100].clone()


def another(kind: str, **sizes: Any) -> Damage:
    """Puts a random model of another architecture in the place of the model."""

    def damage(folder: Path) -> None:
        import transformers

        for path in folder.iterdir():
            path.unlink()
        settings = getattr(transformers, f"{kind.partition('For')[0]}Config")(vocab_size=WORDS + 2, **sizes)
        getattr(transformers, kind)(settings).save_pretrained(folder)
        word_tokenizer(adds_bos=True).save_pretrained(folder)

    return damage


ENCODER = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
LOADED = r"model\.path=.*: cannot be loaded: "
LAYOUT = LOADED + r"its files are not as save_pretrained writes them \(.*\)"

# What is done to a model's folder, and the line.
MODELS: dict[str, tuple[Damage, str]] = {
    "config is no JSON": (content("config.json", b"{"), LOADED + ".*is not a valid JSON file."),
    "config is a list": (content("config.json", b"[]"), LAYOUT),
    "config of an unknown type": (config(model_type="zzz"), LOADED + ".*model type `zzz`.*"),
    "config without a type": (config(model_type=None), LOADED + "Unrecognized model in .*"),
    "heads that do not divide": (config(num_attention_heads=3), LOADED + ".*not a multiple.*"),
    "a negative size": (config(hidden_size=-16), LOADED + ".*negative dimension -16.*"),
    "a size in words": (config(hidden_size="x"), LOADED + ".*'hidden_size'.*"),
    "no tokenizer": (without_tokenizer, LOADED + "there is no tokenizer beside its weights"),
    "a tokenizer cut short": (content("tokenizer.json", b"{}"), LAYOUT),
    "weights cut short": (cut, LOADED + "Error while deserializing header: .*"),
    "weights in a pickle": (pickled, LOADED + ".*weights are read from safetensors alone, so convert .*"),
    "weights of other shapes": (
        weights(small),
        LOADED + r"its weights have other shapes than its config\.json says",
    ),
    "no head": (weights(lambda held: held.pop(HEAD)), r"model\.path=.*: lacks the weights lm_head\.weight"),
    "an encoder": (
        another("BertForMaskedLM", **ENCODER),
        r"model\.name=local: what it predicts depends on the token to predict; give a causal .*",
    ),
    "an encoder and a decoder": (
        another("T5ForConditionalGeneration", d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2),
        LOADED + "Unrecognized configuration class .*",
    ),
}


def filled(name: str, value: float, rows: slice = slice(None)) -> Damage:
    def change(tensors: dict[str, torch.Tensor]) -> None:
        tensors[name][rows] = value

    return weights(change)


def both(first: Damage, second: Damage) -> Damage:
    def damage(folder: Path) -> None:
        first(folder)
        second(folder)

    return damage


def nothing(folder: Path) -> None:
    pass


PLACE = r"domain low, windows 0 to 1: LlamaForCausalLM gives {} that are not finite at .*: "

# What is done to a model's folder, overrides of a run of three domains, and the line.
RUNS: dict[str, tuple[Damage, list[str], str]] = {
    "NaN in the head": (
        filled(HEAD, float("nan")),
        [],
        PLACE.format("logits") + "its head's weight holds NaN or infinite values, so load whole weights",
    ),
    "an infinity in the head": (
        filled(HEAD, float("inf"), slice(3, 4)),
        [],
        PLACE.format("logits") + "its head's weight holds NaN .*",
    ),
    "NaN in the embedding": (
        filled(EMBEDDING, float("nan")),
        [],
        PLACE.format("activations") + r"its model\.embed_tokens\.weight holds NaN .*",
    ),
    "overflow in half precision": (
        filled(NORM, 6e4),
        ["model.dtype=float16"],
        PLACE.format("activations") + r"torch\.float16 overflows, so load the model in float32",
    ),
    "overflow of the features": (
        filled(NORM, 1e25),
        [],
        "domain low: features overflow float32: scale activations and errors down, or give float64",
    ),
    "a head smaller than the tokenizer": (
        both(weights(small), config(vocab_size=100)),
        [],
        "domain high: holds token 2.. and local has 100 outputs; its tokenizer is another model's",
    ),
    "a context of one token": (
        config(max_position_embeddings=1),
        [],
        r"domain low: windows of 17 tokens, .* the context of local, 1 tokens; lower domains\.window_tokens",
    ),
    "one domain": (
        nothing,
        ["domains.include=[low]"],
        "domains=words: has 1 domains; ranking sources needs at least 3",
    ),
    "two domains of one text": (
        nothing,
        ["domains.entries.high.path={}/low.txt"],
        r"domains\.entries\.high: holds the same text as low; leave one of them out",
    ),
    "one window and two halves": (
        nothing,
        ["domains.sketch_windows=1"],
        r"estimator\.self_terms=split: domain low has 1 sketch window, and each half needs one; raise .*",
    ),
    "more features than memory holds": (
        nothing,
        ["estimator.num_features=1000000000000"],
        r"memory: there is not enough for \d+ bytes; lower estimator\.num_features or .*",
    ),
    "a device that is none": (
        nothing,
        ["device=cuda:-1"],
        r"device=cuda:-1: must be auto, cpu, cuda or cuda:N",
    ),
    "windows longer than the texts": (
        nothing,
        ["domains.window_tokens=500"],
        r"domains\.entries\.low: has 600 tokens, but needs 3000 .*",
    ),
}

# Arguments of a real `python run.py`, and its only line on stderr.
PROCESSES = [
    (["store=/proc/x"], "error: /proc/x: no folder can be made there; choose another one with store=FOLDER"),
    (["store=/dev/null/x"], "error: /dev/null/x/.*: Not a directory; choose a folder, not a file"),
    (["--config-dir", "/nope"], "error: Additional config directory '/nope' not found"),
]
