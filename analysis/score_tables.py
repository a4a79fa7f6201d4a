"""The score tables of a source-selection run: all candidates, other choices of them, and a chosen score."""

from analysis.load import RunFolder
from analysis.presentation import Table
from analysis.scores import SECTIONS, UNITS, chosen_score, scores


def score_tables(run: RunFolder) -> list[Table]:
    """Tables of how well each estimator picks sources, as far as the run holds them.

    Args:
        run: a run with transfer.

    Returns:
        ``scores``, one ``scores_<section>`` for each section, and ``selected_score``.
    """
    tables = [Table("scores", f"How well each estimator picks sources; {UNITS}", scores(run))]
    for section, candidates in SECTIONS.items():
        if section in run.metrics:
            title = f"How well each estimator picks sources, {candidates}; {UNITS}"
            tables.append(Table(f"scores_{section}", title, scores(run, section)))
    chosen = chosen_score(run)
    if len(chosen):
        title = (
            "A training-free score chosen on one half of the targets, on the other half, beside the joint "
            "alignment (reference); means over random halvings, regret in nats per token"
        )
        tables.append(Table("selected_score", title, chosen))
    return tables
