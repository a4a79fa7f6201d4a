"""What a signature's samples came from, as JSON values, and how two of them differ."""

import json
from collections.abc import Mapping
from typing import Any

from fishersketch.errors import FisherSketchError


def json_values(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the provenance as it comes back from a file.

    Args:
        provenance: strings to JSON values.

    Returns:
        A copy.

    Raises:
        FisherSketchError: a key or a value cannot be stored; names it.

    >>> json_values({"model": "tiny", "layers": (1, 2)})
    {'model': 'tiny', 'layers': [1, 2]}
    """
    if not isinstance(provenance, Mapping):
        raise FisherSketchError(f"provenance={provenance!r}: must be a dictionary")
    values = {}
    for key, value in provenance.items():
        if not isinstance(key, str):
            raise FisherSketchError(f"provenance[{key!r}]: keys must be strings")
        try:
            values[key] = json.loads(json.dumps(value, allow_nan=False))
        except (TypeError, ValueError, RecursionError) as error:
            raise FisherSketchError(f"provenance[{key!r}]: must be a JSON value ({error})") from error
    return values


def describe_difference(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> str:
    """Returns "key: a against b" for every key whose values differ, joined by semicolons.

    >>> describe_difference({"model": "a", "seed": 0}, {"model": "b", "seed": 0})
    'model: "a" against "b"'
    """
    return "; ".join(
        f"{key}: {json.dumps(mine.get(key))} against {json.dumps(theirs.get(key))}"
        for key in sorted({*mine, *theirs})
        if mine.get(key) != theirs.get(key)
    )
