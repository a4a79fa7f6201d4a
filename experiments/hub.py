"""Whether a repository of the Hugging Face hub can be read, asked before anything large is loaded."""

from experiments.errors import UserError

TIMEOUT_SECONDS = 10


def require(repo: str, revision: str, kind: str, key: str, instead: str) -> bool:
    """Checks that a revision of a repository can be read.

    Args:
        repo: Owner and name.
        revision: Commit, branch or tag.
        kind: ``model`` or ``dataset``.
        key: Dotted key of the repository's name, for errors.
        instead: What to do for who cannot reach the hub, for errors.

    Returns:
        True if the hub gives it, False if only the local cache of the hub has it.

    Raises:
        UserError: Neither does; says what to do.
    """
    from huggingface_hub import HfApi
    from huggingface_hub import errors as hub

    where, api = f"{key}={repo}", HfApi()
    try:
        api.auth_check(repo, repo_type=kind)
        api.repo_info(repo, revision=revision, repo_type=kind, timeout=TIMEOUT_SECONDS)
    except hub.GatedRepoError:
        raise UserError(
            f"{where}: gated on the Hugging Face hub; accept its terms on its page there, then "
            f"set HF_TOKEN to a token of that account"
        ) from None
    except hub.RevisionNotFoundError:
        raise UserError(f"{where}: the Hugging Face hub has no revision {revision!r} of it") from None
    except hub.RepositoryNotFoundError:
        raise UserError(
            f"{where}: the Hugging Face hub has no such {kind}, or HF_TOKEN may not see it; "
            f"check the name and the token"
        ) from None
    except hub.HFValidationError as error:
        raise UserError(f"{where}: no name of a repository ({_first_line(error)})") from None
    except Exception as error:  # what an unreachable host raises depends on the hub library's HTTP client
        if kind == "model" and is_cached(repo, revision):
            return False
        cache = " and the local cache lacks it" if kind == "model" else ""
        raise UserError(
            f"{where}: the Hugging Face hub cannot be reached ({_first_line(error)}){cache}; go online, or "
            f"{instead}"
        ) from None
    return True


def is_cached(repo: str, revision: str) -> bool:
    """Returns whether the local cache of the hub holds a model's revision, with its config at least."""
    from huggingface_hub import try_to_load_from_cache

    return isinstance(try_to_load_from_cache(repo, "config.json", revision=revision), str)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
