"""Cost: time and memory of each method against the output size."""

import pandas as pd

from analysis.caption import caption
from analysis.errors import AnalysisError
from analysis.figures import cost_curve
from analysis.load import RunFolder
from analysis.presentation import Figure, Presentation, Table
from analysis.tables import markdown

METRICS = ("exact_error_bytes", "signature_bytes", "speedup_structured")
COLUMNS = ("method", "error_dim", "seconds_per_token", "bytes_per_task")


def present(run: RunFolder) -> Presentation:
    """A table and a figure of ``arrays/cost.npz``: one entry for each method and output size.

    Args:
        run: a finished run.

    Returns:
        What to show.

    Raises:
        AnalysisError: the array file lacks one of `COLUMNS`.
    """
    stored = run.arrays("cost")
    missing = [column for column in COLUMNS if column not in stored]
    if missing:
        raise AnalysisError(f"{run.path}/arrays/cost.npz: lacks {', '.join(missing)}")
    frame = pd.DataFrame({column: stored[column] for column in COLUMNS})
    line = caption(run)
    largest = frame[frame["error_dim"] == frame["error_dim"].max()].dropna(subset=["seconds_per_token"])
    said = ", ".join(f"{row.method} {1e3 * row.seconds_per_token:.3g} ms" for row in largest.itertuples())
    figure = Figure(
        "cost_against_vocabulary",
        "Time a token and memory a task against the output size",
        f"Curves of time and memory; at K = {frame['error_dim'].max():,}: {said}.",
        lambda: cost_curve.draw(frame, line),
    )
    table = Table("cost", "Cost of each method; seconds a token and bytes a task", frame)
    return Presentation(f"{run.job}: {line}\n\n{markdown(frame)}", [table], [figure])
