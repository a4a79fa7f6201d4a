"""The state of a sketch as bytes and as a file: safetensors with a JSON header, no pickle."""

import json
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load, save

from fishersketch.errors import FisherSketchError
from fishersketch.sketch import FisherSketch
from fishersketch.whole_file import write_whole

FORMAT = 1
_KEY = "fishersketch_state"


def to_bytes(sketch: FisherSketch) -> bytes:
    """Returns the state of a sketch.

    Args:
        sketch: what to write.
    """
    tensors, header = sketch.state()
    about = {**header, "format": FORMAT, "recipe": FisherSketch.RECIPE}
    return save(tensors, metadata={_KEY: json.dumps(about, sort_keys=True, separators=(",", ":"))})


def from_bytes(data: bytes) -> FisherSketch:
    """Returns the sketch whose state `to_bytes` gave.

    Args:
        data: the state.

    Returns:
        The sketch.

    Raises:
        FisherSketchError: it is damaged, or of a release whose features differ.
    """
    try:
        length = int.from_bytes(data[:8], "little")
        header = json.loads(json.loads(data[8 : 8 + length])["__metadata__"][_KEY])
        found = (header.pop("format"), header.pop("recipe"))
        tensors = load(data)
    except (SafetensorError, LookupError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise FisherSketchError("not the whole state of a sketch; make it again") from error
    if found != (FORMAT, FisherSketch.RECIPE):
        raise FisherSketchError(
            f"format and recipe {found}: this release reads {(FORMAT, FisherSketch.RECIPE)}; make it again"
        )
    return FisherSketch.from_state(tensors, header)


def save_sketch(sketch: FisherSketch, path: Path) -> None:
    """Writes a sketch as one file, whole or not at all.

    Args:
        sketch: what to write.
        path: the file; an older one is replaced.

    Raises:
        FisherSketchError: the file cannot be written; names it.
    """
    write_whole(path, to_bytes(sketch), "sketch")


def load_sketch(path: Path) -> FisherSketch:
    """Reads a sketch.

    Args:
        path: a file that `save_sketch` wrote.

    Returns:
        The sketch.

    Raises:
        FisherSketchError: the file is missing, damaged or no sketch; names it.
    """
    try:
        return from_bytes(path.read_bytes())
    except OSError as error:
        raise FisherSketchError(f"{path}: cannot read the sketch ({error.strerror})") from error
    except FisherSketchError as error:
        raise FisherSketchError(f"{path}: {error}") from error
