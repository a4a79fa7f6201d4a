"""Finds the jobs and the kinds of models and domains: a new one is one more file."""

import importlib
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import cast

from experiments.errors import UserError
from experiments.failures import summary

_PACKAGE = Path(__file__).resolve().parent


def import_registered() -> None:
    """Imports every module of the package that registers a config dataclass."""
    for name in _modules(r"^@register\("):
        import_module(name)


def jobs() -> list[str]:
    """Returns the names of the jobs: the modules ``experiments/<job>.py`` that define ``run(cfg, store)``."""
    names = [name.removeprefix("experiments.") for name in _modules(r"^def run\(\s*cfg\b")]
    return [name for name in names if "." not in name]


def job(name: str) -> Callable[..., None]:
    """Returns the function ``run(cfg, store)`` of a job."""
    return cast(Callable[..., None], import_module(f"experiments.{name}").run)


def import_module(name: str) -> ModuleType:
    """Imports a module of the package.

    Args:
        name: Its full name.

    Returns:
        The module.

    Raises:
        UserError: With the module, when it cannot be imported.
    """
    try:
        return importlib.import_module(name)
    except Exception as error:
        raise UserError(f"{name} cannot be imported: {summary(error)}") from error


def _modules(mark: str) -> list[str]:
    # Reading the sources is fast; importing all of them to see what they hold would take seconds.
    paths = [
        path for path in _PACKAGE.rglob("*.py") if re.search(mark, path.read_text("utf-8"), re.MULTILINE)
    ]
    return sorted(".".join(path.relative_to(_PACKAGE.parent).with_suffix("").parts) for path in paths)
