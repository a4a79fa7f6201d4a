"""Interface text of Django in one language: the translations of its message catalogues."""

from collections.abc import Iterator
from dataclasses import dataclass

from omegaconf import MISSING

from experiments.assets import fetch
from experiments.domains.base import Source
from experiments.errors import UserError
from experiments.options import option, register
from experiments.packages import PACKAGES


@register("domain", "django_po")
@dataclass
class DjangoPo(Source):
    """One locale. Only translations are read: the English originals are the same in every catalogue."""

    locale: str = option(MISSING, "Locale, such as es or pt_BR.")

    def describe(self) -> str:
        """Returns the package and the locale."""
        return f"{PACKAGES['django'].label}, locale {self.locale}"

    def documents(self, key: str) -> Iterator[str]:
        """Yields the translated messages, each plural form by itself.

        Raises:
            UserError: The package cannot be fetched or lacks the locale.
        """
        import polib

        root = fetch(PACKAGES["django"])
        folders = (root / "django" / "conf", *sorted((root / "django" / "contrib").iterdir()))
        catalogues = [
            path
            for folder in folders
            for path in sorted((folder / "locale" / self.locale / "LC_MESSAGES").glob("*.po"))
        ]
        if not catalogues:
            have = sorted({
                path.parent.parent.name for path in root.glob("django/conf/locale/*/LC_MESSAGES/*.po")
            })
            raise UserError(f"{key}.locale={self.locale}: {PACKAGES['django'].label} has {', '.join(have)}")
        for catalogue in catalogues:
            for entry in polib.pofile(str(catalogue)):
                if not (entry.obsolete or entry.fuzzy):
                    yield from filter(None, (entry.msgstr, *entry.msgstr_plural.values()))
