"""How each job's runs are shown: one file a job, found by itself.

A file ``analysis/jobs/<job>.py`` has a function ``present(run)`` that returns a `Presentation`, and
``METRICS``, the dotted keys that a sweep over the job shows.
"""

import importlib
import pkgutil
from types import ModuleType

from analysis.errors import AnalysisError


def names() -> list[str]:
    """The jobs that can be shown.

    Returns:
        Their names, sorted.
    """
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def find(job: str) -> ModuleType:
    """The module that shows a job.

    Args:
        job: the name in the run's manifest.

    Returns:
        A module with ``present`` and ``METRICS``.

    Raises:
        AnalysisError: no file shows this job.
    """
    if job not in names():
        raise AnalysisError(
            f"job {job!r} has no presenter: add analysis/jobs/{job}.py (there are {', '.join(names())})"
        )
    return importlib.import_module(f"analysis.jobs.{job}")
