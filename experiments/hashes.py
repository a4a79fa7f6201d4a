"""Hashes that stand for content."""

import hashlib
import json
from pathlib import Path


def file_hash(path: Path) -> str:
    """Returns the sha256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def short_hash(*parts: str) -> str:
    """Returns 16 hexadecimal digits that stand for the parts, in order."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
