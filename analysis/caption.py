"""The line that says what a table or figure was made from."""

from typing import Any

from analysis.load import RunFolder


def model_of(run: RunFolder) -> str:
    """The model of a run.

    Args:
        run: the run.

    Returns:
        Its name, from the metrics or else the config.
    """
    return str(_held(run).get("model") or run.setting("model.name") or "no model")


def data_of(run: RunFolder) -> str:
    """The data of a run.

    Args:
        run: the run.

    Returns:
        Its name, from the metrics or else the config, the number of domains, and how it was fine-tuned on
        where the metrics say so.
    """
    held = _held(run)
    name = str(held.get("data") or run.setting("domains.name") or "no data set")
    count = len(held.get("domains", []))
    details = [f"{count} domains"] if count else []
    details += [f"transfer {held['mode']}"] if "mode" in held else []
    return f"{name} ({', '.join(details)})" if details else name


def samples_of(run: RunFolder) -> str:
    """How much data a run saw.

    Args:
        run: the run.

    Returns:
        Number of samples with its unit.
    """
    for key, unit in (("n_tokens", "tokens"), ("n_samples", "samples"), ("n", "samples")):
        count = _held(run).get(key)
        if isinstance(count, int):
            return f"{count:,} {unit}"
    return "number of samples not recorded"


def caption(run: RunFolder) -> str:
    """Model, data, number of samples, features and seed of a run.

    Args:
        run: the run.

    Returns:
        One line; a smoke run says that it is no result.
    """
    features = run.setting("estimator.num_features")
    parts = [
        f"Model {model_of(run)}",
        f"data {data_of(run)}",
        f"n = {samples_of(run)}",
        *([f"m = {features:,}"] if isinstance(features, int) else []),
        f"seed {run.manifest.get('seed', 'not recorded')}",
    ]
    return ("Smoke run, not a result. " if run.smoke else "") + ", ".join(parts) + "."


def _held(run: RunFolder) -> dict[str, Any]:
    return run.metrics if run.status == "finished" else {}
