"""What a validation keeps of its agreements."""

import numpy as np
import torch

from experiments.scoring.agreement import STATISTICS
from experiments.store import Store
from experiments.validation.grid import Agreement
from experiments.validation.settings import EstimatorValidationConfig
from fishersketch import Alignment


def write_agreement(
    store: Store,
    settings: EstimatorValidationConfig,
    exact: list[Alignment],
    grid: dict[tuple[int, int], Agreement],
    of_full: dict[int, Agreement],
    payloads: dict[str, Agreement],
    seeds: list[int],
) -> None:
    """Writes ``arrays/agreement.npz`` and ``arrays/payloads.npz``.

    Args:
        store: Where they go.
        settings: Of the run.
        exact: The exact alignment at each number of samples.
        grid: Agreement by (m, n), on the same samples.
        of_full: Agreement at the estimator's m with the exact alignment of all samples, by n.
        payloads: Agreement of each payload by dtype.
        seeds: Projection seeds.
    """
    features, samples = settings.features, settings.samples
    joint = upper(exact[-1].joint)
    store.write_arrays(
        "agreement",
        features=features,
        samples=samples,
        seeds=seeds,
        measures=Agreement.MEASURES,
        statistics=STATISTICS,
        values=np.array([[grid[m, n].values for n in samples] for m in features]),
        intervals=np.array([[grid[m, n].intervals for n in samples] for m in features]),
        of_full=np.array([of_full[n].values for n in samples]),
        # The root mean square over pairs of the error that m Gaussian features would have.
        gaussian=[float(np.sqrt(np.nanmean((1 - joint**2) ** 2 / m))) for m in features],
    )
    store.write_arrays(
        "payloads",
        dtypes=list(payloads),
        features=[settings.payload_features(dtype) for dtype in payloads],
        measures=Agreement.MEASURES,
        statistics=STATISTICS,
        values=np.array([found.values for found in payloads.values()]),
        intervals=np.array([found.intervals for found in payloads.values()]),
    )


def upper(matrix: torch.Tensor) -> np.ndarray:
    """Returns the (T (T - 1) / 2,) values above the diagonal of a (T, T) matrix."""
    return matrix.numpy()[np.triu_indices(len(matrix), 1)]
