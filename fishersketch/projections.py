"""What every pair of random projections has in common, and how one is made from its name."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from threading import get_ident
from weakref import WeakValueDictionary

import torch

from fishersketch.errors import FisherSketchError


class Projection(ABC):
    r"""Two random projections of one vector, whose products are the random Maclaurin features.

    For rows w_k, w'_k of +1 and -1 the feature is phi_k(x) = (w_k . x)(w'_k . x), and

        E[phi_k(x) phi_k(y)] = (x . y)^2

    so that the mean over k of phi_k(x) phi_k(y) is an unbiased estimate of the squared inner product.
    A subclass says how the rows are drawn; rows of one projection may depend on each other.

    Args:
        size: entries of a vector x.
        num_features: m, pairs of rows.
        label: what the draws depend on (`fishersketch.draws.Draws`).

    Source:
        Kar and Karnick, Random Feature Maps for Dot Product Kernels, AISTATS 2012, Algorithm 1.
    """

    def __init__(self, size: int, num_features: int, label: str):
        self.size = size
        self.num_features = num_features
        self.label = label
        self._cast: dict[tuple, torch.Tensor] = {}
        self._buffers: dict[tuple, torch.Tensor] = {}

    @abstractmethod
    def project(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns w_k . x and w'_k . x for every k.

        Args:
            x: (B, size) float32 or float64.

        Returns:
            Two (B, m) tensors of the type and on the device of x.
        """

    @abstractmethod
    def multiply_adds(self) -> int:
        """Returns how many multiply-adds one vector costs, its signs included."""

    def features(self, x: torch.Tensor) -> torch.Tensor:
        """Returns the (B, m) features phi_k(x) of (B, size) vectors."""
        left, right = self.project(x)
        return left * right

    def _on(
        self,
        name: str,
        make: Callable[[], torch.Tensor],
        like: torch.Tensor,
        dtype: torch.dtype | None = None,
    ) -> torch.Tensor:
        """Returns a drawn tensor on the device of `like` and in its type or `dtype`; kept."""
        key = (name, dtype or like.dtype, like.device)
        if key not in self._cast:
            self._cast[key] = make().to(dtype=dtype or like.dtype, device=like.device)
        return self._cast[key]

    def _scratch(self, shape: tuple[int, ...], like: torch.Tensor) -> torch.Tensor:
        """Returns memory to overwrite, kept from call to call: fresh pages cost more than filling them.

        Each thread has its own, since sketches may share a projection.
        """
        key, size = (get_ident(), like.dtype, like.device), math.prod(shape)
        if key not in self._buffers or self._buffers[key].numel() < size:
            with torch.inference_mode(False):  # else it could not be written to outside inference mode
                self._buffers[key] = torch.empty(size, dtype=like.dtype, device=like.device)
        return self._buffers[key][:size].view(shape)


_in_use: WeakValueDictionary[tuple, Projection] = WeakValueDictionary()


def make_projection(kind: str, size: int, num_features: int, label: str) -> Projection:
    """Makes a pair of projections by its name.

    Args:
        kind: "rademacher", "hadamard" or "block_hadamard".
        size: entries of a vector.
        num_features: m.
        label: what the draws depend on.

    Returns:
        The projection; nothing is drawn before it is used. All sketches that use one at a time share it.

    Raises:
        FisherSketchError: there is no projection of that name.
    """
    from fishersketch.block_hadamard import BlockHadamard
    from fishersketch.rademacher import Rademacher
    from fishersketch.srht import SubsampledHadamard

    kinds: dict[str, type[Projection]] = {
        "rademacher": Rademacher,
        "hadamard": SubsampledHadamard,
        "block_hadamard": BlockHadamard,
    }
    if kind not in kinds:
        raise FisherSketchError(f"projection={kind!r}: must be one of {', '.join(sorted(kinds))}")
    key = (kind, size, num_features, label)
    projection = _in_use.get(key)
    if projection is None:
        projection = _in_use[key] = kinds[kind](size, num_features, label)
    return projection
