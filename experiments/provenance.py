"""What a result was made with: versions, commit, machine, memory."""

import platform
import resource
import subprocess
import sys
from importlib import metadata
from pathlib import Path

_PACKAGES = (
    "fishersketch",
    "torch",
    "transformers",
    "numpy",
    "scipy",
    "safetensors",
    "hydra-core",
    "omegaconf",
    "accelerate",
    "gguf",
    "peft",
    "timm",
    "datasets",
    "wandb",
)


def versions() -> dict[str, str | None]:
    """Returns the versions of Python and of the packages behind a result; None where not installed."""
    found: dict[str, str | None] = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = None
    return found


def commit(root: Path) -> tuple[str | None, bool | None]:
    """The commit a checkout stands at.

    Args:
        root: The folder that would be the top of the checkout.

    Returns:
        The commit's hash and whether tracked files differ from it; (None, None) if ``root`` is no checkout.
    """
    top = _git(root, "rev-parse", "--show-toplevel")
    head = _git(root, "rev-parse", "HEAD")
    if top is None or head is None or Path(top) != root.resolve():
        return None, None
    return head, bool(_git(root, "status", "--porcelain", "--untracked-files=no"))


def _git(root: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def peak_bytes() -> int:
    """Returns the most memory this process has held at once, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
