"""Signatures on disk: safetensors with a JSON header, checked on the way in."""

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from fishersketch.errors import FisherSketchError
from fishersketch.provenance import json_values
from fishersketch.quantize import DTYPES, stored_shape
from fishersketch.self_terms import SelfTerms
from fishersketch.signature import TaskSignature
from fishersketch.spec import SketchSpec
from fishersketch.whole_file import write_whole

FORMAT = 1
_KEY = "fishersketch"
# What reading a file of anything else raises, down in safetensors, json and the checks here.
_DAMAGE = (
    SafetensorError,
    OSError,
    LookupError,
    TypeError,
    AttributeError,
    ValueError,
    ArithmeticError,
    RecursionError,
)
# A signature of 2^24 features is 64 MB a stream: far beyond any use, and small enough to read safely.
_MOST_FEATURES = 1 << 24


def save_signature(signature: TaskSignature, path: Path) -> None:
    """Writes a signature as one file, whole or not at all.

    Args:
        signature: what to write.
        path: the file; an older one is replaced.

    Raises:
        FisherSketchError: the file cannot be written; names it.
    """
    header: dict[str, Any] = {
        "format": FORMAT,
        "spec": signature.spec.to_dict(),
        "provenance": dict(signature.provenance),
        "dtype": signature.dtype,
        "num_samples": list(signature.num_samples),
        "self_terms": {name: list(terms.to_dict().values()) for name, terms in signature.self_terms.items()},
        "factors": dict(signature.factors),
    }
    if signature.spec.extra_streams:
        header["extra_self_terms"] = {
            kind: [terms[name] for name in signature.spec.extra_streams]
            for kind, terms in signature.extra_self_terms.items()
        }
    payload = {name: tensor.contiguous() for name, tensor in signature.payload.items()}
    data = save(payload, metadata={_KEY: _canonical({**header, "digest": _digest(header, payload)})})
    write_whole(path, data, "signature")


def _canonical(header: dict[str, Any]) -> str:
    return json.dumps(header, sort_keys=True, separators=(",", ":"))


def _digest(header: dict[str, Any], payload: dict[str, torch.Tensor]) -> str:
    """Returns 64 bits of a hash of the header and the tensors, which a flipped bit changes."""
    digest = hashlib.sha256(_canonical(header).encode())
    for name in sorted(payload):
        digest.update(payload[name].numpy().tobytes())
    return digest.hexdigest()[:16]


def load_signature(path: Path) -> TaskSignature:
    """Reads a signature and checks everything in it.

    Args:
        path: a file that `save_signature` wrote.

    Returns:
        The signature.

    Raises:
        FisherSketchError: the file is missing, cut short, changed or not a signature; names it.
    """
    if path.is_dir():
        raise FisherSketchError(f"{path}: a folder, not a signature file")
    if not path.is_file():
        raise FisherSketchError(f"{path}: there is no such signature file")
    try:
        return _read(path)
    except _DAMAGE as error:
        text = f"no entry {error}" if isinstance(error, KeyError) else str(error)
        reason = (text.splitlines() or [type(error).__name__])[0][:200]
        raise FisherSketchError(f"{path}: not a whole signature ({reason}); make it again") from error


def _read(path: Path) -> TaskSignature:
    with safe_open(path, framework="pt") as file:
        header = json.loads((file.metadata() or {})[_KEY])
        if not isinstance(header, dict):
            raise FisherSketchError("its header is no JSON object")
        spec = _spec(header)
        payload = {name: file.get_tensor(name) for name in spec.streams}
    signature = _signature(header, spec, payload)
    if header.pop("digest") != _digest(header, payload):
        raise FisherSketchError("its digest differs from its content")
    return signature


def _spec(header: dict[str, Any]) -> SketchSpec:
    if header["format"] != FORMAT:
        raise FisherSketchError(f"format {header['format']!r}: this release reads format {FORMAT}")
    spec = SketchSpec.from_dict(header["spec"])
    if spec.num_features > _MOST_FEATURES:
        raise FisherSketchError(f"num_features={spec.num_features}: more than {_MOST_FEATURES}")
    return spec


def _signature(header: dict[str, Any], spec: SketchSpec, payload: dict[str, torch.Tensor]) -> TaskSignature:
    if header["dtype"] not in DTYPES:
        raise FisherSketchError(f"dtype {header['dtype']!r} is unknown")
    kind, length = stored_shape(header["dtype"], spec.num_features)
    for name, tensor in payload.items():
        if tensor.dtype != kind or tensor.shape != (length,):
            raise FisherSketchError(f"stream {name!r} does not fit the spec")
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            raise FisherSketchError(f"stream {name!r} holds NaN or infinite values")
    terms = {
        name: SelfTerms(*(_finite(value) for value in header["self_terms"][name]))
        for name in ("plain", "split")
        if name in header["self_terms"]
    }
    extra: dict[str, dict[str, float]] = {kind: {} for kind in terms}
    if spec.extra_streams:
        for name, found in extra.items():
            values = map(_finite, header["extra_self_terms"][name])
            found.update(zip(spec.extra_streams, values, strict=True))
    if "plain" not in terms:
        raise FisherSketchError("the plain self terms are missing")
    first, second = header["num_samples"]
    if not (type(first) is type(second) is int and min(first, second) >= 0 and first + second > 0):
        raise FisherSketchError(f"num_samples {header['num_samples']!r} are no counts")
    if "split" in terms and min(first, second) == 0:
        raise FisherSketchError("split self terms of an empty half")
    return TaskSignature(
        spec=spec,
        provenance=json_values(header["provenance"]),
        dtype=header["dtype"],
        num_samples=(first, second),
        self_terms=terms,
        payload=payload,
        factors={name: _finite(header["factors"][name]) for name in spec.streams},
        extra_self_terms=extra,
    )


def _finite(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise FisherSketchError(f"{value!r} is no finite number")
    return float(value)
