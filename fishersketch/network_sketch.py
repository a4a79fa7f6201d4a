"""One-pass sketch of the Fisher matrix of many linear layers at once: one signature for the network."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from fishersketch.alignment import cosines
from fishersketch.errors import FisherSketchError
from fishersketch.projections import Projection, make_projection
from fishersketch.samples import all_finite, working_dtype
from fishersketch.self_terms import SELF_TERMS

# Their two projections of one vector are uncorrelated, so that layers can be summed before the product.
_PROJECTIONS = ("rademacher", "block_hadamard")


@dataclass(frozen=True)
class LayerShape:
    """Inputs d and outputs K of a linear layer."""

    inputs: int
    outputs: int


class NetworkSketch:
    r"""Accumulates, for each layer and for all of them together, features of a task's sequence gradients.

    With G_l = sum_t e_t a_t^T the gradient of layer l and projections that differ from layer to layer,

        u_l = x_l^T G_l w_l,   v_l = x'_l^T G_l w'_l,

    the feature of a layer is u_l v_l, and that of the network is (sum_l u_l)(sum_l v_l). As draws of
    different layers are independent and E[u_l v_l] = 0, products of features of two sequences have the
    means k_l^2 and (sum_l k_l)^2: the network's feature sketches the whole Fisher matrix of these layers,
    blocks between layers included, in m numbers whatever the number of layers.

    Args:
        shapes: of the layers, by name.
        num_features: m.
        projection: "block_hadamard" or "rademacher".
        seed: draws the projections.

    Raises:
        FisherSketchError: the projection is another.

    Source:
        Kar and Karnick, AISTATS 2012, for the features of one layer; the sum before the product is ours.
    """

    def __init__(
        self,
        shapes: Mapping[str, LayerShape],
        num_features: int = 4096,
        projection: str = "block_hadamard",
        seed: int = 0,
    ):
        if projection not in _PROJECTIONS:
            raise FisherSketchError(f"projection={projection!r}: must be one of {', '.join(_PROJECTIONS)}")
        self.names = tuple(shapes)
        self.num_features = num_features
        stem = f"fishersketch/network/{projection}/m={num_features}/seed={seed}"
        self._projections = {
            name: (
                make_projection(projection, shape.inputs, num_features, f"{stem}/{name}/activation"),
                make_projection(projection, shape.outputs, num_features, f"{stem}/{name}/error"),
            )
            for name, shape in shapes.items()
        }
        self._sums = torch.zeros(2, len(shapes) + 1, num_features, dtype=torch.float64)
        self._counts = torch.zeros(2, dtype=torch.int64)

    @property
    def state_bytes(self) -> int:
        """Bytes of the accumulators: 2 halves x (layers + 1) x m x 8."""
        return self._sums.numel() * self._sums.element_size()

    def update(self, terms: Mapping[str, tuple[torch.Tensor, torch.Tensor]], first: int) -> None:
        """Adds the sequences of a batch.

        Args:
            terms: by layer, activations (B, positions, d) and errors (B, positions, K), as `layer_terms`
                gives them.
            first: the number of the batch's first sequence; its parity is its half.

        Raises:
            FisherSketchError: a layer is missing, or features are not finite.
        """
        missing = [name for name in self.names if name not in terms]
        if missing:
            raise FisherSketchError(f"layer {missing[0]} is missing from the terms")
        count = len(next(iter(terms.values()))[1])
        left_sum = torch.zeros(count, self.num_features, dtype=torch.float64)
        right_sum = torch.zeros_like(left_sum)
        sums = torch.zeros(2, len(self.names) + 1, self.num_features, dtype=torch.float64)
        halves = torch.nn.functional.one_hot(torch.arange(first, first + count) % 2, 2).T.double()  # (2, B)
        for index, name in enumerate(self.names):
            with torch.no_grad():
                left, right = _linear_forms(self._projections[name], *terms[name])
            left_sum, right_sum = left_sum + left, right_sum + right
            sums[:, index] = halves @ (left * right)
        sums[:, -1] = halves @ (left_sum * right_sum)
        if not all_finite(sums):
            raise FisherSketchError("features are not finite: the model overflowed; load it in float32")
        self._sums += sums
        self._counts += halves.sum(1).long()

    def means(self) -> torch.Tensor:
        """Returns the (3, layers + 1, m) means over all sequences, the first half and the second.

        Raises:
            FisherSketchError: a half has no sequence.
        """
        if not bool((self._counts > 0).all()):
            raise FisherSketchError("the sketch needs sequences of both parities: give more")
        whole = self._sums.sum(0) / self._counts.sum()
        return torch.stack([whole, *(self._sums / self._counts[:, None, None])])


def align_networks(sketches: Sequence[NetworkSketch], self_terms: str = "split") -> dict[str, torch.Tensor]:
    """Estimates alignments of tasks from their network sketches.

    Args:
        sketches: of T tasks, over the same layers and draws.
        self_terms: "split" or "plain".

    Returns:
        (T, T) float64 cosines by layer, and of all layers together under "network".

    Raises:
        FisherSketchError: the sketches differ in layers or features.
    """
    if self_terms not in SELF_TERMS:
        raise FisherSketchError(f"self_terms={self_terms!r}: must be one of {', '.join(SELF_TERMS)}")
    first = sketches[0]
    if any(s.names != first.names or s.num_features != first.num_features for s in sketches):
        raise FisherSketchError("sketches of different layers or features cannot be compared")
    means = torch.stack([sketch.means() for sketch in sketches])  # (T, 3, layers + 1, m)
    found = {}
    for index, name in enumerate((*first.names, "network")):
        whole, one, two = means[:, 0, index], means[:, 1, index], means[:, 2, index]
        norms = (one * two).sum(1) if self_terms == "split" else whole.square().sum(1)
        found[name] = cosines(whole @ whole.T, norms.tolist())
    return found


def _linear_forms(
    projections: tuple[Projection, Projection], activations: torch.Tensor, errors: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns u and v of each sequence, (B, m) float64."""
    batch, positions = errors.shape[:2]
    dtype = working_dtype(activations, errors)
    pairs = [
        projection.project(rows.flatten(0, 1).to(dtype))
        for projection, rows in zip(projections, (activations, errors), strict=True)
    ]
    left, right = (
        (a * e).view(batch, positions, -1).sum(1).double().cpu() for a, e in zip(*pairs, strict=True)
    )
    return left, right
