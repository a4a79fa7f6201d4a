"""A small vision transformer that reads letters and digits, trained on first use."""

import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from experiments.artefacts import ArtefactCache
from experiments.draws import permutations
from experiments.hashes import file_hash, short_hash
from experiments.images.glyphs import CLASSES, FONTS, SIZE, draw_glyphs
from experiments.models.images import LoadedImageModel
from experiments.models.timm_hub import loaded_classifier
from experiments.options import option, register
from experiments.paths import cache_root
from experiments.progress import progress

log = logging.getLogger(__name__)
_MEAN, _STD = 0.2, 0.35


@register("model", "glyph_vit")
@dataclass
class GlyphVit:
    """A timm vision transformer trained on glyphs of a few fonts; other fonts and corruptions are new to it.

    Training is a function of these settings and of the machine's arithmetic, and the weights are kept in the
    cache. The fingerprint follows the weights, so signatures of two trainings never mix.
    """

    name: str = option("glyph_vit", "Name in tables and figures.")
    width: int = option(64, "Size of a token, d.", min=4)
    depth: int = option(4, "Transformer blocks.", min=1)
    heads: int = option(4, "Attention heads.", min=1)
    patch: int = option(8, "Height and width of a patch, in pixels.", min=1, max=SIZE)
    fonts: list[str] = option(
        ["DejaVuSans", "DejaVuSerif", "DejaVuSansMono", "STIXGeneral", "cmr10", "cmss10"],
        "Fonts that it is trained on.",
        choices=tuple(FONTS),
    )
    images: int = option(3000, "Training images of each font.", min=1)
    epochs: int = option(5, "Passes over the training images.", min=1)
    batch: int = option(64, "Images of a step.", min=1)
    learning_rate: float = option(2e-3, "Largest learning rate of AdamW; it warms up and decays.", min=1e-6)
    seed: int = option(0, "Draws initial weights, training images and their order.", min=0)

    def build(self, device: torch.device) -> LoadedImageModel:
        """Returns the classifier, trained on first use."""
        from safetensors.torch import load_file

        key = {name: value for name, value in asdict(self).items() if name != "name"}
        cache = ArtefactCache(cache_root() / "artefacts")
        path = cache.get("glyph_vit", key | {"classes": list(CLASSES)}, self._train, ".safetensors")
        model = self._network()
        model.load_state_dict(load_file(path))
        return loaded_classifier(self.name, model, short_hash(file_hash(path)), device)

    def _network(self) -> Any:
        from timm.models.vision_transformer import VisionTransformer

        network: Any = VisionTransformer(
            img_size=SIZE,
            patch_size=self.patch,
            in_chans=1,
            num_classes=len(CLASSES),
            embed_dim=self.width,
            depth=self.depth,
            num_heads=self.heads,
        )
        network.pretrained_cfg = {"input_size": (1, SIZE, SIZE), "mean": (_MEAN,), "std": (_STD,)}
        return network

    def _train(self, path: Path) -> None:
        from safetensors.torch import save

        drawn = [draw_glyphs(font, "none", self.images, "training", self.seed) for font in self.fonts]
        images, labels = torch.cat([each[0] for each in drawn]), torch.cat([each[1] for each in drawn])
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            model = self._network()
            loaded = loaded_classifier(self.name, model, "", torch.device("cpu"))
            loss = self._fit(
                model.train(), lambda rows: (loaded.inputs(images[rows])["x"], labels[rows]), len(labels)
            )
        log.info("%s: trained on %d images, last loss %.3f nats", self.name, len(labels), loss)
        path.write_bytes(save({name: tensor.contiguous() for name, tensor in model.state_dict().items()}))

    def _fit(self, model: Any, batch: Callable, count: int) -> float:
        """Returns the mean loss of the last epoch."""
        steps = self.epochs * (count // self.batch)
        optimizer = torch.optim.AdamW(model.parameters(), lr=self.learning_rate, weight_decay=0.05)
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, max_lr=self.learning_rate, total_steps=steps, pct_start=0.1
        )
        order = permutations("glyph_vit/order", self.seed, self.epochs, count)
        order = order[:, : count // self.batch * self.batch].reshape(steps, self.batch)
        losses = []
        for rows in progress(order, "train glyph_vit"):
            pixels, labels = batch(torch.from_numpy(rows))
            loss = torch.nn.functional.cross_entropy(model(pixels), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(float(loss.detach()))
        return sum(losses[-(steps // self.epochs) :]) / (steps // self.epochs)
