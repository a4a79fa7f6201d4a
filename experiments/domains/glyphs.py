"""Tasks of letters and digits as images: one font or one corruption each."""

from dataclasses import dataclass
from typing import Any, NoReturn

from experiments.errors import UserError
from experiments.images.base import ImageTask, ImageTaskSet
from experiments.images.corruptions import CORRUPTIONS
from experiments.images.glyphs import CLASSES, FONTS, draw_glyphs
from experiments.options import build_typed, option, register
from experiments.progress import progress


@dataclass
class GlyphEntry:
    """One task of a set."""

    font: str = option("DejaVuSans", "Font, one that matplotlib ships.", choices=tuple(FONTS))
    corruption: str = option("none", "What is done to its images.", choices=CORRUPTIONS)
    group: str = option("fonts", "Group of the task.")


@register("domains", "glyphs")
@dataclass
class GlyphSetConfig:
    """Image tasks over the same 62 classes, drawn from the fonts of the installed matplotlib."""

    name: str = option("glyphs", "Name in tables and figures.")
    seed: int = option(0, "Draws classes, places and noise of the images.", min=0)
    images: int = option(2000, "Images a task that signatures see.", min=2)
    held_out_images: int = option(500, "Images a task that are never sketched or trained on.", min=1)
    limit: int | None = option(None, "Use the first so many tasks; null for all.", min=1)
    entries: dict[str, Any] = option({}, "Task by name: its font, corruption and group.")

    def check(self, key: str) -> None:
        """Checks every entry.

        Raises:
            UserError: For the first that is wrong, or where there is none.
        """
        if not self.chosen(key):
            raise UserError(f"{key}.entries: holds no task; set entries")

    def chosen(self, key: str = "domains") -> dict[str, GlyphEntry]:
        """Returns the entries that are used, by name."""
        entries = {
            name: build_typed(GlyphEntry, entry, f"{key}.entries.{name}")
            for name, entry in self.entries.items()
        }
        return dict(list(entries.items())[: self.limit])

    def build(self, tokenizer: Any) -> NoReturn:
        """Refuses: there is no text to make token windows of.

        Raises:
            UserError: Always; names jobs that use images.
        """
        raise UserError(
            f"domains={self.name}: holds images, no text; choose text domains, or "
            "experiment=estimator_validation, which uses images"
        )

    def build_images(self) -> ImageTaskSet:
        """Returns the tasks, their images drawn."""
        tasks = []
        for name, entry in progress(self.chosen().items(), "glyphs"):
            images, labels = draw_glyphs(entry.font, entry.corruption, self.images, "task", self.seed)
            held_out, held_out_labels = draw_glyphs(
                entry.font, entry.corruption, self.held_out_images, "held out", self.seed
            )
            tasks.append(
                ImageTask(
                    name=name,
                    group=entry.group,
                    source=f"matplotlib {entry.font}.ttf, {entry.corruption}",
                    licence=FONTS[entry.font],
                    images=images,
                    labels=labels,
                    held_out_images=held_out,
                    held_out_labels=held_out_labels,
                    classes=CLASSES,
                )
            )
        return ImageTaskSet(self.name, tasks)
