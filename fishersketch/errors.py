"""The error that a mistake of the caller raises."""


class FisherSketchError(ValueError):
    """A mistake in what was asked or given: one line that names the thing and the fix."""
