"""Documented, range-checked config fields and the registry of config dataclasses.

A kind of model, domain or job keeps its settings in a plain dataclass beside its code::

    @register("model", "package_gguf")
    @dataclass
    class PackageGguf:
        name: str = option("smollm2", "Name in tables and figures.")
        context: int = option(2048, "Longest window, in tokens.", min=1)

A YAML file opts in with ``defaults: [/schema/model/package_gguf@_here_, _self_]``. OmegaConf lets no YAML
change a frozen dataclass, so those are refused here.
"""

import copy
import dataclasses
import difflib
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, cast

from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import (
    ConfigAttributeError,
    ConfigKeyError,
    MissingMandatoryValue,
    OmegaConfBaseException,
)

from experiments.errors import UserError

T = TypeVar("T")
_registry: dict[str, dict[str, type]] = {}
# How OmegaConf says that a value does not fit, and how a user may be told.
_MISFITS = {
    r"Value '(?P<value>.*)' of type '\w+' could not be converted to Integer": "must be an integer",
    r"Value '(?P<value>.*)' of type '\w+' could not be converted to Float": "must be a number",
    r"Value '(?P<value>.*)' is not a valid bool": "must be true or false",
    r"(field '.*' is not Optional|Incompatible value 'None')": "must not be null",
    r"Invalid value assigned: .* is not a ListConfig": "must be a list, as [1,2]",
    r"Cannot convert '.*' to string": "must be text",
}


def option(
    default: Any,
    help: str,
    *,
    min: float | None = None,
    max: float | None = None,
    choices: Iterable[Any] | None = None,
) -> Any:
    """A dataclass field with its documentation and the range that `check` enforces.

    Args:
        default: The default; lists, dicts and dataclasses are copied for each instance. ``omegaconf.MISSING``
            for a field that has to be set.
        help: One line: what it is, with its unit.
        min: Smallest allowed value (of every element, for a list).
        max: Largest allowed value (of every element, for a list).
        choices: The allowed values (of every element, for a list).

    Returns:
        The dataclass field.
    """
    metadata = {"help": help, "min": min, "max": max, "choices": None if choices is None else tuple(choices)}
    if isinstance(default, list | dict) or dataclasses.is_dataclass(default):
        return dataclasses.field(default_factory=lambda: copy.deepcopy(default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def register(group: str, name: str) -> Callable[[type[T]], type[T]]:
    """Returns a class decorator that stores a config dataclass as ``schema/<group>/<name>``.

    Raises:
        TypeError: For a class that is no dataclass, or a frozen one, or a name that another class has taken.
    """

    def store(cls: type[T]) -> type[T]:
        if not dataclasses.is_dataclass(cls) or cls.__dataclass_params__.frozen:  # type: ignore[attr-defined]
            raise TypeError(f"{cls.__qualname__} must be a dataclass that is not frozen")
        taken = _registry.setdefault(group, {}).get(name)
        if taken is not None and (taken.__module__, taken.__qualname__) != (cls.__module__, cls.__qualname__):
            raise TypeError(f"schema/{group}/{name} is {taken.__module__}.{taken.__qualname__} already")
        _registry[group][name] = cls
        ConfigStore.instance().store(group=f"schema/{group}", name=name, node=cls)
        return cls

    return store


def registered(group: str) -> dict[str, type]:
    """Returns the dataclasses registered under a group, by name."""
    return dict(sorted(_registry.get(group, {}).items()))


def check(cfg: Any, key: str = "") -> None:
    """Checks every field of a config dataclass, and of those inside it, against its `option`.

    A dataclass may add ``check(self, key: str) -> None`` for rules across its fields, given where it stands.

    Args:
        cfg: A dataclass instance, or a list or dict that may hold some.
        key: Dotted key of ``cfg`` itself.

    Raises:
        UserError: With the dotted key, the value and what is allowed.
    """
    if isinstance(cfg, Mapping):
        for name, value in cfg.items():
            check(value, join(key, name))
    elif isinstance(cfg, list | tuple):
        for position, value in enumerate(cfg):
            check(value, f"{key}[{position}]")
    elif dataclasses.is_dataclass(cfg):
        for field in dataclasses.fields(cfg):
            value = getattr(cfg, field.name)
            for element in value if isinstance(value, list | tuple) else [value]:
                _check_value(element, field.metadata, join(key, field.name))
            check(value, join(key, field.name))
        if callable(getattr(cfg, "check", None)):
            cast(Any, cfg).check(key)


def _check_value(value: Any, rule: Mapping[str, Any], key: str) -> None:
    if value is None:
        return
    choices, low, high = rule.get("choices"), rule.get("min"), rule.get("max")
    if choices is not None and value not in choices:
        raise UserError(f"{key}={value}: must be one of {', '.join(map(str, choices))}")
    if isinstance(value, float) and math.isnan(value):
        raise UserError(f"{key}={value}: must be a number")
    if isinstance(value, float) and math.isinf(value):
        raise UserError(f"{key}={value}: must be finite")
    if low is not None and value < low:
        raise UserError(f"{key}={value}: must be at least {low}")
    if high is not None and value > high:
        raise UserError(f"{key}={value}: must be at most {high}")


def build_typed(cls: type[T], mapping: Mapping[Any, Any], key: str) -> T:
    """Makes a config dataclass from plain YAML content, with types and ranges checked.

    Args:
        cls: The dataclass.
        mapping: Its fields; what is left out keeps its default.
        key: Dotted key of the mapping, for the errors.

    Returns:
        An instance of ``cls``.

    Raises:
        UserError: For an unknown field, a wrong type, a value out of range or a field that has to be set.
    """
    if isinstance(mapping, DictConfig):
        mapping = cast(dict[Any, Any], OmegaConf.to_container(mapping, resolve=True))
    if not isinstance(mapping, Mapping):
        raise UserError(f"{key}={mapping}: must be a mapping of {', '.join(field_names(cls))}")
    for name in mapping:
        if name not in field_names(cls):
            raise UserError(unknown(join(key, str(name)), str(name), field_names(cls)))
    try:
        built = cast(T, OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(cls), dict(mapping))))
    except OmegaConfBaseException as error:
        raise UserError(explain(error, key)) from None
    check(built, key)
    return built


def build_kind(group: str, mapping: Mapping[Any, Any], key: str) -> Any:
    """Returns `build_typed` of the class that ``mapping["kind"]`` names in a group.

    Raises:
        UserError: As `build_typed`, and for a kind that is not registered.
    """
    if not isinstance(mapping, Mapping | DictConfig) or "kind" not in mapping:
        raise UserError(f"{key}.kind: must be set, to one of {', '.join(registered(group))}")
    kind = str(mapping["kind"])
    if kind not in registered(group):
        raise UserError(f"{key}.kind={kind}: must be one of {', '.join(registered(group))}")
    cls = registered(group)[kind]
    fields = {name: mapping[name] for name in mapping if name != "kind" or "kind" in field_names(cls)}
    return build_typed(cls, fields, key)


def field_names(cls: type) -> list[str]:
    """Returns the names of a dataclass's fields, in order."""
    return [field.name for field in dataclasses.fields(cls)]


def join(key: str, name: object) -> str:
    """Returns the dotted key of ``name`` inside ``key``."""
    return f"{key}.{name}" if key else str(name)


def unknown(key: str, name: str, known: Iterable[str]) -> str:
    """Returns the error line for a name that does not exist: the nearest one, or all that do."""
    known = sorted(known)
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known) or 'none'}"
    return f"{key}: no such setting; {hint}"


def explain(error: OmegaConfBaseException, key: str = "") -> str:
    """Returns one line for an OmegaConf error: the dotted key, the value if known, and what is expected."""
    first = str(error.msg or error).splitlines()[0]
    where = join(key, error.full_key) if error.full_key else key
    refused, _, by_resolver = first.partition(" raised while resolving interpolation: ")
    if refused == UserError.__name__:
        return by_resolver
    if isinstance(error, ConfigKeyError | ConfigAttributeError) and error.object_type is not None:
        known = field_names(error.object_type) if dataclasses.is_dataclass(error.object_type) else []
        return unknown(where, str(error.key), known)
    if isinstance(error, MissingMandatoryValue):
        return f"{where}: must be set"
    for pattern, rule in _MISFITS.items():
        if match := re.match(pattern, first):
            value = match.groupdict().get("value")
            return f"{where}: {rule}" if value is None else f"{where}={value}: {rule}"
    return f"{where}: {first}"
