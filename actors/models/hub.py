"""Checkpoints of a model hub, fetched into the hub's own local cache."""

from __future__ import annotations

import errno
import logging
import sys
from pathlib import Path
from typing import Any

from actors.errors import StartError
from actors.models.progress import logging_bar

log = logging.getLogger("troupe.models")

FILES = [
    "*.json",
    "model*.safetensors",
    "weights.safetensors",
    "weights.npz",
    "tokenizer.model",
    "tiktoken.model",
    "*.tiktoken",
    "*.txt",
    "*.jsonl",
    "*.jinja",
]
"""What mlx-lm and transformers read, and nothing else of what a repository may hold."""


def fetch(repository: str, *, progress: bool, code: bool = False) -> Path:
    """The local folder of a repository's newest revision; only what is missing is fetched. Blocks for the download.

    When the hub cannot be reached, the newest revision in the local cache serves, if it is whole.
    An interrupted fetch is taken up again by the next one. `code` also fetches Python files, which are not run here.

    Raises:
        StartError: there is no such repository, it may not be read, the hub cannot be reached, or there is no room.
    """
    from huggingface_hub import snapshot_download

    drawn = progress and sys.stderr.isatty()
    try:
        log.info("looking for %s", repository)
        # Declared for one flavour of tqdm; any subclass serves.
        bar: Any = None if drawn else logging_bar(f"fetching {repository}")
        patterns = [*FILES, "*.py"] if code else list(FILES)
        folder = snapshot_download(repository, allow_patterns=patterns, tqdm_class=bar)
    except Exception as error:
        log.debug("fetching %s failed", repository, exc_info=True)
        raise StartError(sentence(repository, error)) from None
    return Path(folder)


def sentence(repository: str, error: Exception) -> str:
    """Why a repository could not be fetched, for a person. The token is in no message of the hub's client."""
    from huggingface_hub import errors

    match error:
        case errors.HFValidationError():
            return f"{repository!r} is neither `starter`, nor a folder, nor the id of a repository such as `owner/name`"
        case errors.GatedRepoError():
            return f"{repository} is gated: accept its terms on its page, then log in with `hf auth login`"
        case errors.RepositoryNotFoundError():
            return f"the hub has no repository {repository} (or it is private: log in with `hf auth login`)"
        case errors.IncompleteSnapshotError():
            return f"the hub cannot be reached, and {repository} is only partly in the local cache"
        case errors.LocalEntryNotFoundError(__cause__=errors.HfHubHTTPError() as refused):
            return f"the hub answered {refused.response.status_code} for {repository}, which is not in the local cache"
        case errors.LocalEntryNotFoundError() | errors.OfflineModeIsEnabled():
            return f"the hub cannot be reached, and {repository} is not in the local cache"
        case errors.HfHubHTTPError():
            return f"the hub answered {error.response.status_code} for {repository}"
        case OSError(errno=errno.ENOSPC):
            return f"the disk is full: {repository} does not fit into the local cache"
    words = str(error).strip().splitlines() or [type(error).__name__]
    return f"cannot fetch {repository}: {words[0]}"
