"""Config groups as the command line composes them."""

from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

import experiments.domains  # noqa: F401 (registers the kinds)
import experiments.models  # noqa: F401

CONF = Path(__file__).parent.parent / "conf"


def composed(group: str, name: str, *overrides: str) -> Any:
    """Returns the config object of ``conf/<group>/<name>.yaml`` with overrides of its fields."""
    with initialize_config_dir(str(CONF), version_base="1.3"):
        raw = compose(overrides=[f"+{group}={name}", *(f"{group}.{override}" for override in overrides)])
    return OmegaConf.to_object(raw[group])
