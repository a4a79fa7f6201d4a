"""Baselines that an alignment is compared with, one method per file."""

from fishersketch.baselines.checks import UndefinedSimilarityError
from fishersketch.baselines.cka import linear_cka
from fishersketch.baselines.collector import Collector
from fishersketch.baselines.diagonal_fisher import (
    diagonal_fisher_cosine,
    diagonal_fisher_cosines,
    exact_diagonal_fisher_cosines,
)
from fishersketch.baselines.label_means import LabelMeansCollector, on_label_means, paired_label_means
from fishersketch.baselines.largest_errors import LargestErrors
from fishersketch.baselines.leep import leep
from fishersketch.baselines.logme import logme
from fishersketch.baselines.matrix import similarity_matrix
from fishersketch.baselines.mean_gradient import (
    exact_mean_gradient_cosines,
    mean_gradient_cosine,
    mean_gradient_cosines,
    mean_gradient_cosines_from_sketch,
    pooled_mean,
)
from fishersketch.baselines.rsa import rsa
from fishersketch.baselines.svcca import svcca
from fishersketch.baselines.token_frequency import LabelCounter, token_frequency_cosine

__all__ = [
    "Collector",
    "LabelCounter",
    "LabelMeansCollector",
    "LargestErrors",
    "UndefinedSimilarityError",
    "diagonal_fisher_cosine",
    "diagonal_fisher_cosines",
    "exact_diagonal_fisher_cosines",
    "exact_mean_gradient_cosines",
    "leep",
    "linear_cka",
    "logme",
    "mean_gradient_cosine",
    "mean_gradient_cosines",
    "mean_gradient_cosines_from_sketch",
    "on_label_means",
    "paired_label_means",
    "pooled_mean",
    "rsa",
    "similarity_matrix",
    "svcca",
    "token_frequency_cosine",
]
