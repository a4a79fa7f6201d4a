"""The errors that a mistake of the user raises."""

from fishersketch.errors import FisherSketchError


class UserError(FisherSketchError):
    """A mistake in a config, a path or the data: one line that names the thing and the fix."""


class NotFiniteDomain(UserError):
    """A model gives NaN or infinite values on a domain; the other domains can do without it."""
