"""Tables, figures and reports from finished run folders."""

from analysis.errors import AnalysisError
from analysis.present import present

__all__ = ["AnalysisError", "present"]
