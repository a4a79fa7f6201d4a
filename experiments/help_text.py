"""The text of ``python run.py --help``: the choices in conf/ and every documented setting."""

import dataclasses
from pathlib import Path
from typing import Any

from omegaconf import MISSING

from experiments.options import field_names, join, registered

_USAGE = """\
FisherSketch: which corpus to fine-tune on, without training.

  python run.py                              the default experiment
  python run.py experiment=NAME              one of the experiments below
  python run.py GROUP=CHOICE KEY=VALUE       another choice of a group, another value of a setting
  python run.py -m KEY=A,B,C                 one run for each value
  python run.py --cfg job --resolve ...      show the config, run nothing

Values with spaces, =, #, braces or accents are quoted twice: 'store="my runs"'.
"""


def help_text(conf: Path, config: type) -> str:
    """Describes what can be chosen and set.

    Args:
        conf: Folder of the YAML files.
        config: The dataclass of a whole config.

    Returns:
        The text: usage, the choices of every group, and every setting with its default, range and meaning.
    """
    lines = [_USAGE, f"Groups and their choices, the files of {conf.name}/"]
    for group in sorted(path for path in conf.iterdir() if path.is_dir()):
        lines.append(f"  {group.name}: {', '.join(sorted(path.stem for path in group.glob('*.yaml')))}")
    lines += ["", "Settings", *_settings(config, "")]
    for part in field_names(config):
        for kind, cls in registered(part).items():
            lines += ["", f"Settings of {part}, kind {kind}", *_settings(cls, part)]
    for kind, cls in registered("domain").items():
        lines += ["", f"Settings of domains.entries.NAME with kind: {kind}", *_settings(cls, "")]
    return "\n".join(lines)


def _settings(cls: type, key: str) -> list[str]:
    lines = []
    for field in dataclasses.fields(cls):
        default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        if not dataclasses.is_dataclass(default):
            shown = "to be set" if default == MISSING else f"default {_yaml(default)}"
            limits = "".join(f", {rule}" for rule in _limits(field.metadata))
            lines.append(f"  {join(key, field.name)} ({shown}{limits}): {field.metadata.get('help', '')}")
    return lines


def _limits(rule: Any) -> list[str]:
    limits = [f"{name} {rule[name]}" for name in ("min", "max") if rule.get(name) is not None]
    return limits + ([" | ".join(map(str, rule["choices"]))] if rule.get("choices") else [])


def _yaml(value: Any) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
