"""A language model of the Hugging Face hub."""

import logging
from dataclasses import dataclass

import torch
from omegaconf import MISSING

from experiments.hashes import short_hash
from experiments.hub import require
from experiments.models.base import DTYPES, LoadedModel, loaded_causal_lm, read_causal_lm
from experiments.options import option, register

log = logging.getLogger(__name__)


@register("model", "hub_causal_lm")
@dataclass
class HubCausalLM:
    """A causal language model at a pinned revision; code in the repository is never run.

    Whether it can be had is asked first, so a gated or unreachable one fails at once. No other model ever
    takes its place.
    """

    name: str = option(MISSING, "Name in tables and figures.")
    repo: str = option(MISSING, "Owner and name on the hub.")
    revision: str = option(MISSING, "Commit of the repository.")
    dtype: str = option("bfloat16", "Number format of the weights.", choices=DTYPES)
    device_map: str | None = option("auto", "How transformers spreads it over GPUs; null for one device.")

    def require(self, key: str) -> bool:
        """Asks whether the weights can be had, and loads nothing.

        Args:
            key: Dotted key of this config, for errors.

        Returns:
            True from the hub, False from its local cache alone.

        Raises:
            UserError: They are out of reach; says what to do.
        """
        return require(
            self.repo,
            self.revision,
            "model",
            f"{key}.repo",
            "use model=smollm2_135m, which comes from the package index, or a local folder (model.path)",
        )

    def build(self, device: torch.device) -> LoadedModel:
        """Returns the model and its tokenizer, downloaded on first use.

        Raises:
            UserError: The weights are out of reach; says what to do.
        """
        online = self.require("model")
        if not online:
            log.info("the hub is out of reach: %s is read from its local cache", self.repo)
        # Spreading is for GPUs: on a CPU there is one place to be.
        device_map = self.device_map if device.type == "cuda" else None
        model, tokenizer = read_causal_lm(
            self.repo,
            f"model.repo={self.repo}",
            self.dtype,
            device_map,
            revision=self.revision,
            local_files_only=not online,
        )
        if device_map is None:
            model = model.to(device)
        commit = getattr(model.config, "_commit_hash", None) or self.revision
        return loaded_causal_lm(self.name, model, tokenizer, short_hash(self.repo, commit, self.dtype))
