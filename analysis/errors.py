"""The error that a mistake in what is shown raises."""


class AnalysisError(ValueError):
    """A folder, key or job that cannot be shown: one line that names the thing and the fix."""
