"""Statistics of source selection: Top-1, regret, intervals, permutation tests, ceilings and tables of them.

Every matrix is ``X[i, j]``, i the source and j the target; gains are in nats per token. Nothing here looks
at a diagonal: no domain is a candidate for itself.
"""

from experiments.scoring.bootstrap import interval
from experiments.scoring.candidates import all_others, within_groups, without_siblings
from experiments.scoring.ceiling import agreement, transpose_top1
from experiments.scoring.mantel import MatrixCorrelation, matrix_correlation
from experiments.scoring.sections import score_sections, sibling_mask
from experiments.scoring.selection import combined_scores, selected_score
from experiments.scoring.sign_flip import PairedTest, paired_test
from experiments.scoring.subsets import subset_scores
from experiments.scoring.table import score_table
from experiments.scoring.targets import TargetScores, random_top1, target_scores

__all__ = [
    "MatrixCorrelation",
    "PairedTest",
    "TargetScores",
    "agreement",
    "all_others",
    "combined_scores",
    "interval",
    "matrix_correlation",
    "paired_test",
    "random_top1",
    "score_sections",
    "score_table",
    "selected_score",
    "sibling_mask",
    "subset_scores",
    "target_scores",
    "transpose_top1",
    "within_groups",
    "without_siblings",
]
