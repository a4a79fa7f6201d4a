"""An image classifier of timm, with weights from the Hugging Face hub."""

import logging
from dataclasses import dataclass
from typing import Any

import torch
from omegaconf import MISSING

from experiments.errors import UserError
from experiments.hashes import short_hash
from experiments.hub import require
from experiments.models.images import LoadedImageModel
from experiments.options import option, register

log = logging.getLogger(__name__)


@register("model", "timm_classifier")
@dataclass
class TimmClassifier:
    """An image classifier at a pinned revision, read by timm; no other model ever takes its place."""

    name: str = option(MISSING, "Name in tables and figures.")
    repo: str = option(MISSING, "Owner and name on the hub, of a timm model.")
    revision: str = option(MISSING, "Commit of the repository.")

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
            "use model=glyph_vit, a small ViT that is trained here",
        )

    def build(self, device: torch.device) -> LoadedImageModel:
        """Returns the classifier, downloaded on first use.

        Raises:
            UserError: The weights are out of reach, or are no timm model; says what to do.
        """
        online = self.require("model")
        if not online:
            log.info("the hub is out of reach: %s is read from its local cache", self.repo)
        import timm

        try:
            model: Any = timm.create_model(f"hf-hub:{self.repo}@{self.revision}", pretrained=True)
        except (OSError, RuntimeError, ValueError, KeyError) as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise UserError(f"model.repo={self.repo}: cannot be loaded by timm: {reason}") from error
        return loaded_classifier(self.name, model, short_hash(self.repo, self.revision), device)


def loaded_classifier(name: str, model: Any, fingerprint: str, device: torch.device) -> LoadedImageModel:
    """Returns a timm classifier with what its pretrained config says of its inputs."""
    from timm.data import resolve_data_config

    data = resolve_data_config({}, model=model)
    channels, height, _ = data["input_size"]
    return LoadedImageModel(
        name=name,
        model=model.eval().to(device),
        tokenizer=None,
        fingerprint=fingerprint,
        tokenizer_fingerprint="",
        device=device,
        vocabulary_size=model.num_classes,
        context_length=model.patch_embed.num_patches if hasattr(model, "patch_embed") else 1,
        input_name="x",
        channels=channels,
        image_size=height,
        mean=tuple(data["mean"]),
        std=tuple(data["std"]),
    )
