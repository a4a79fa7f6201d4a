"""The error that a mistake of the user raises."""

from fishersketch.errors import FisherSketchError


class UserError(FisherSketchError):
    """A mistake in a config, a path or the data: one line that names the thing and the fix."""
