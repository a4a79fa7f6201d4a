"""A language model in a local folder, as `save_pretrained` writes it."""

from dataclasses import dataclass

import torch
from omegaconf import MISSING

from experiments.errors import UserError
from experiments.hashes import file_hash, short_hash
from experiments.models.base import DTYPES, LoadedModel, loaded_causal_lm, read_causal_lm
from experiments.options import option, register
from experiments.paths import user_path


@register("model", "local_causal_lm")
@dataclass
class LocalCausalLM:
    """A causal language model with its tokenizer, saved by transformers; code beside it is never run."""

    name: str = option("local", "Name in tables and figures.")
    path: str = option(MISSING, "Folder with config.json, weights and tokenizer files.")
    dtype: str = option("float32", "Number format of the weights.", choices=DTYPES)

    def build(self, device: torch.device) -> LoadedModel:
        """Returns the model and its tokenizer.

        Raises:
            UserError: The folder is missing or holds no such model.
        """
        folder = user_path(self.path, "model.path")
        if not (folder / "config.json").is_file():
            raise UserError(f"model.path={self.path}: no config.json in it; give a folder of save_pretrained")
        model, tokenizer = read_causal_lm(
            str(folder), f"model.path={self.path}", self.dtype, local_files_only=True
        )
        weights = sorted(path for path in folder.iterdir() if path.suffix == ".safetensors")
        origin = [
            part for path in [folder / "config.json", *weights] for part in (path.name, file_hash(path))
        ]
        return loaded_causal_lm(self.name, model.to(device), tokenizer, short_hash(*origin, self.dtype))
