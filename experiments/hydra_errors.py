"""Hydra's errors in one line: the override or file, what is wrong with it, and what to write instead."""

import re
import shlex

import yaml
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf.errors import OmegaConfBaseException

from experiments.options import explain


def explain_hydra(error: BaseException, arguments: list[str]) -> str | None:
    """Says what an error of the composition means.

    Args:
        error: What Hydra raised.
        arguments: The command line's arguments.

    Returns:
        One line, or None for an error of another origin.
    """
    cause = error.__cause__ or error.__context__
    if isinstance(error, OverrideParseException):
        return _grammar(error.override)
    if isinstance(error, MissingConfigException):
        group, _, name = (error.missing_cfg_file or "").rpartition("/")
        choices = (
            f"choose one of {', '.join(error.options)}" if error.options else "see --help for what there is"
        )
        return f"{group}={name}: no such choice; {choices}" if group else f"{name}: no such config; {choices}"
    if isinstance(cause, OmegaConfBaseException) and isinstance(error, HydraException):
        where = re.match(r"In '(.+?)': \w+ raised", str(error))
        return _with_value(explain(cause), arguments) + (f" (in {where[1]}.yaml)" if where else "")
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"{error.problem_mark.name}, line {error.problem_mark.line + 1}: {error.problem}"
    if isinstance(error, OmegaConfBaseException):
        return explain(error)
    if "Config group override must be a string" in str(error):
        nulls = [argument for argument in arguments if argument.endswith("=null")]
        return f"{', '.join(nulls)}: a group needs a choice; transfer=none is one, see --help for the others"
    if isinstance(error, TypeError) and (lists := [word for word in arguments if re.match(r"\w+=\[", word)]):
        return f"{', '.join(lists)}: a group needs the name of a choice; see --help for what there is"
    if str(error).startswith("Ambiguous value"):
        key, _, value = str(error).split("'")[1].partition("=")
        return f"{key}={value}: a list is written {key}=[{value}], and a sweep needs -m before it"
    if isinstance(error, FileNotFoundError) and error.filename is not None:
        return f"{error.filename}: no folder can be made there; choose another one with store=FOLDER"
    if isinstance(error, HydraException) or (isinstance(error, ValueError) and "--cfg" in str(error)):
        return " ".join(str(error).split())
    return None


def _with_value(line: str, arguments: list[str]) -> str:
    """Returns the line with the argument it is about in the place of a bare key."""
    key, colon, rest = line.partition(": ")
    for argument in arguments:
        if argument.lstrip("+").startswith(f"{key}="):
            return f"{argument}{colon}{rest}"
    return line


def _grammar(override: str) -> str:
    key, equals, value = override.partition("=")
    if not equals:
        return f"{override}: a setting is written KEY=VALUE"
    quoted = value.replace("\\", "\\\\").replace('"', '\\"')
    argument = shlex.quote(f'{key}="{quoted}"')
    return f"{override}: Hydra cannot read this value; quote it: {argument}"
