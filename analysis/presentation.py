"""What a job shows of a run: tables, figures and a summary, before any file is written."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pandas as pd
from matplotlib.figure import Figure as Drawing


@dataclass(frozen=True)
class Table:
    """One table.

    Attributes:
        name: file name without suffix.
        title: one line above the table, units included.
        frame: the rows; a NaN is a value that is undefined, and is written so.
    """

    name: str
    title: str
    frame: pd.DataFrame


@dataclass(frozen=True)
class Figure:
    """One figure.

    Attributes:
        name: file name without suffix.
        title: one line for the page that shows it.
        alternative: the figure in words, for those who do not see it.
        draw: draws it under the theme in force.
    """

    name: str
    title: str
    alternative: str
    draw: Callable[[], Drawing]


@dataclass(frozen=True)
class Presentation:
    """Tables, figures and the text that a terminal shows."""

    summary: str
    tables: list[Table] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
