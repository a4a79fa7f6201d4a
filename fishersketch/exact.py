"""Exact Fisher alignment of output heads, without a K x K or d K x d K matrix."""

from collections.abc import Callable, Sequence

import torch

from fishersketch.alignment import Alignment, cosines, make_alignment
from fishersketch.errors import FisherSketchError
from fishersketch.kernel_sums import KernelSums, Samples, sequence_kernel_sums, token_kernel_sums
from fishersketch.materialized import materialized_kernel_sums
from fishersketch.samples import all_finite, check_samples, sequence_lengths
from fishersketch.self_terms import SELF_TERMS, SelfTerms
from fishersketch.spec import SAMPLE_UNITS

ROUTES = ("gram", "materialized")
Task = tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]


def exact_align(
    tasks: Sequence[Task],
    self_terms: str = "split",
    sample_unit: str = "token",
    route: str = "gram",
    progress: Callable[[int, int], object] | None = None,
) -> Alignment:
    r"""Computes the alignments that a sketch estimates, from all pairs of samples.

    <F_i, F_j> = E E [(a . a')^2 (e . e')^2], and the marginals with one factor alone. The Gram route
    costs n_i n_j (d + K) multiply-adds a pair of tasks and never forms F or Gamma; the materialised
    route forms F, M and Gamma (d K up to a few thousand) and is there to check the other.

        coupling  rho_ij = c_ij / sqrt(c_ii c_jj),  c_ij = <F_i,F_j> / (<M_i,M_j> <Gamma_i,Gamma_j>)

    so that S_ae = S_a S_e rho holds exactly.

    Args:
        tasks: (activations (N, d), errors (N, K), group (N,) or None) of each task; N may differ. The
            group's parity is a sample's half; a sequence's rows stand together.
        self_terms: "split" or "plain", as in `align`.
        sample_unit: "token" or "sequence".
        route: "gram" or "materialized".
        progress: called with (pairs done, pairs in all) after each pair of tasks.

    Returns:
        The alignments; `stderr_sketch` is 0.

    Raises:
        FisherSketchError: shapes do not fit, an option is unknown, or a half is empty.

    Source:
        The Geometry of Updates, Theorem 4.2 (alignment as the cosine of kernel mean embeddings).

    >>> g = torch.Generator().manual_seed(0)
    >>> task = lambda: (torch.randn(8, 2, generator=g), torch.randn(8, 3, generator=g), torch.arange(8))
    >>> table = exact_align([task(), task()])
    >>> product = table.activation * table.error * table.coupling
    >>> bool(torch.allclose(table.joint, product))
    True
    """
    samples = [_samples(task, number) for number, task in enumerate(tasks)]
    _check(samples, self_terms, sample_unit, route)
    sums = {
        ("token", "gram"): token_kernel_sums,
        ("sequence", "gram"): sequence_kernel_sums,
        ("token", "materialized"): materialized_kernel_sums,
    }[sample_unit, route]
    count = len(samples)
    pairs = [(i, j) for i in range(count) for j in range(i, count)]
    inner = torch.zeros(3, count, count, dtype=torch.float64)
    terms: list[SelfTerms] = []
    for done, (i, j) in enumerate(pairs, start=1):
        with torch.no_grad(), torch.autocast(samples[i].errors.device.type, enabled=False):
            result = sums(samples[i], samples[j])
        if i == j:
            terms.append(_self_terms(result, self_terms))
        else:
            inner[:, i, j] = inner[:, j, i] = torch.tensor(result.means(), dtype=torch.float64)
        if progress is not None:
            progress(done, len(pairs))
    joint = cosines(inner[0], [t.joint for t in terms])
    activation = cosines(inner[1], [t.activation for t in terms])
    error = cosines(inner[2], [t.error for t in terms])
    product = activation * error
    return make_alignment(
        joint=joint,
        activation=activation,
        error=error,
        coupling=joint / torch.where(product == 0, torch.nan, product),
        stderr_sketch=torch.zeros_like(joint),
        terms=terms,
        self_terms=self_terms,
        sample_unit=sample_unit,
    )


def _samples(task: Task, number: int) -> Samples:
    where = f"task {number}: "
    if not isinstance(task, tuple | list) or len(task) != 3:
        raise FisherSketchError(f"{where}expected (activations, errors, group), with None for no group")
    check_samples(*task, where)
    samples = Samples(*task)
    if len(samples.errors) == 0:
        raise FisherSketchError(f"{where}holds no samples")
    for name, rows in (("activations", samples.activations), ("errors", samples.errors)):
        if not all_finite(rows):
            raise FisherSketchError(f"{where}{name} hold NaN or infinite values")
    return samples


def _check(samples: Sequence[Samples], self_terms: str, sample_unit: str, route: str) -> None:
    for name, value, choices in (
        ("self_terms", self_terms, SELF_TERMS),
        ("sample_unit", sample_unit, SAMPLE_UNITS),
        ("route", route, ROUTES),
    ):
        if value not in choices:
            raise FisherSketchError(f"{name}={value!r}: must be one of {', '.join(choices)}")
    if not samples:
        raise FisherSketchError("no tasks given: nothing to align")
    if (sample_unit, route) == ("sequence", "materialized"):
        raise FisherSketchError("route='materialized' is for sample_unit='token': use route='gram'")
    shapes = {(s.activations.shape[1], s.errors.shape[1]) for s in samples}
    if len(shapes) > 1:
        raise FisherSketchError(f"tasks have different (d, K): {sorted(shapes)}")
    devices = {s.errors.device for s in samples}
    if len(devices) > 1:
        raise FisherSketchError(f"tasks are on different devices: {', '.join(sorted(map(str, devices)))}")
    for number, sample in enumerate(samples):
        if sample_unit == "sequence":
            if sample.group is None:
                raise FisherSketchError(f"task {number}: group is missing: sample_unit='sequence' needs it")
            sequence_lengths(sample.group, f"task {number}: ")
        if self_terms == "split" and (sample.group is None or len((sample.group % 2).unique()) < 2):
            raise FisherSketchError(
                f"task {number}: split self terms need groups of both parities; give more sequences, or "
                "self_terms='plain'"
            )


def _self_terms(sums: KernelSums, self_terms: str) -> SelfTerms:
    return sums.split_terms() if self_terms == "split" else sums.plain_terms()
