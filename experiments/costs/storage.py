"""Bytes of a task: while it streams, as a signature, as a file, and as the exact matrix."""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from experiments.costs.sketch_work import random_samples
from experiments.costs.timing import Clock
from fishersketch import FisherSketch, SketchSpec

DTYPES = ("float32", "int8", "int4")
FLOAT32_BYTES = 4


def storage_rows(
    activation_dim: int, error_dim: int, features: list[int], provenance: Mapping[str, Any], clock: Clock
) -> list[dict[str, Any]]:
    """Writes signatures of real sketches and counts.

    Args:
        activation_dim: d.
        error_dim: K.
        features: values of m.
        provenance: of the signatures.
        clock: gives the device.

    Returns:
        Rows with m, dtype, state_bytes, signature_bytes (the joint payload), file_bytes and header_bytes:
        what the file holds beside the payloads of all streams.
    """
    rows = []
    samples = random_samples(4, activation_dim, error_dim, clock.device)
    with TemporaryDirectory() as folder:
        for m in features:
            sketch = FisherSketch(SketchSpec(activation_dim, error_dim, m), provenance)
            sketch.update(*samples)
            for dtype in DTYPES:
                signature = sketch.signature(dtype)
                path = Path(folder) / f"{m}-{dtype}.safetensors"
                signature.save(path)
                size = path.stat().st_size
                rows.append({
                    "m": m,
                    "dtype": dtype,
                    "state_bytes": sketch.state_bytes,
                    "signature_bytes": signature.signature_bytes,
                    "file_bytes": size,
                    "header_bytes": size - len(signature.payload) * signature.signature_bytes,
                })
    return rows


def exact_error_bytes(error_dim: int) -> int:
    """Returns the bytes of Gamma_e, a K x K float32 matrix.

    >>> round(exact_error_bytes(128256) / 2**30, 1)
    61.3
    """
    return FLOAT32_BYTES * error_dim * error_dim
