"""The errors that a mistake of the caller raises."""


class FisherSketchError(ValueError):
    """A mistake in what was asked or given: one line that names the thing and the fix."""


class NotFiniteError(FisherSketchError):
    """A model, or what was given for its activations and errors, holds NaN, infinity or an overflow."""
