"""The report: what the runs of a store hold, beside the paper's claims, as a page, Markdown and files."""

from analysis.reporting.write import report

__all__ = ["report"]
