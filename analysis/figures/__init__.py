"""Figures of runs: one drawing a file, all in the style of `analysis.style`."""
