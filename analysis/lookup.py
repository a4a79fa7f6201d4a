"""Values by dotted keys, JSON objects from files, and names in the order of their numbers."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from analysis.errors import AnalysisError

MISSING = object()


def look_up(values: Any, key: str) -> Any:
    """Follow a dotted key through mappings and lists.

    Args:
        values: nested mappings and lists.
        key: dotted path; a part is a mapping's key or a list's index. Keys may hold dots themselves.

    Returns:
        The value, or ``MISSING`` when the path leads nowhere.
    """
    if isinstance(values, Mapping):
        if key in values:
            return values[key]
        for cut in (i for i, letter in enumerate(key) if letter == "."):
            if key[:cut] in values:
                found = look_up(values[key[:cut]], key[cut + 1 :])
                if found is not MISSING:
                    return found
        return MISSING
    if isinstance(values, list):
        head, _, rest = key.partition(".")
        if not head.isdigit() or int(head) >= len(values):
            return MISSING
        return look_up(values[int(head)], rest) if rest else values[int(head)]
    return MISSING


def read_json(file: Path) -> dict[str, Any]:
    """Read a JSON object from a file.

    Args:
        file: the file.

    Returns:
        The object.

    Raises:
        AnalysisError: the file is no JSON object.
    """
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise AnalysisError(f"{file}: not valid JSON ({error})") from error
    if not isinstance(content, dict):
        raise AnalysisError(f"{file}: expected a JSON object")
    return content


def natural_key(text: str) -> list[tuple[int, int, str]]:
    """A sort key that puts ``run 10`` after ``run 9``.

    Args:
        text: what to sort by.

    Returns:
        Its letters and whole numbers.

    >>> sorted(["run 10", "run 9"], key=natural_key)
    ['run 9', 'run 10']
    """
    parts: list[tuple[int, int, str]] = []
    digits = ""
    for letter in text + "\0":
        if letter.isdigit() and letter.isascii():
            digits += letter
            continue
        if digits:
            parts.append((0, int(digits), ""))
            digits = ""
        parts.append((1, 0, letter))
    return parts
