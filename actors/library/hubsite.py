"""Questions to the hub's web site: its search, and whose token this is. Blocking, with time-outs, never a download."""

from __future__ import annotations

import logging
from typing import Any

from actors.library.messages import Found, FoundModel

log = logging.getLogger("troupe.library")

PATIENCE_S = 10.0
RESULTS = 30


def search(query: str, token: str | None) -> Found:
    """Models for MLX that match, most downloaded first. A hub that does not answer is said to be offline."""
    params = {"search": query, "filter": "mlx", "sort": "downloads", "direction": "-1", "limit": str(RESULTS)}
    try:
        rows = _get("/api/models", params, token).raise_for_status().json()
        return Found(tuple(_model(row) for row in rows if isinstance(row, dict)))
    except Exception as error:  # no network fails in more ways than can be listed, and none is worth an error
        log.debug("the search failed", exc_info=True)
        return Found(offline=_words(error))


def is_refused(token: str) -> bool:
    """Whether the hub answers that it does not know this token. False also when it does not answer."""
    try:
        return _get("/api/whoami-v2", {}, token).status_code == 401
    except Exception as error:
        log.info("the token could not be checked: %s", _words(error))
        return False


def _get(path: str, params: dict[str, str], token: str | None) -> Any:
    from huggingface_hub import constants, get_session
    from huggingface_hub.utils import build_hf_headers

    # None would let the library look for a token of its own, and that is wanted.
    headers = build_hf_headers(token=token)
    url = constants.ENDPOINT + path
    return get_session().get(url, params=params, headers=headers, timeout=PATIENCE_S, follow_redirects=True)


def _model(row: dict[str, Any]) -> FoundModel:
    return FoundModel(str(row.get("id") or row.get("modelId")), _count(row.get("downloads")), _count(row.get("likes")))


def _count(value: object) -> int:
    return value if type(value) is int else 0


def _words(error: Exception) -> str:
    """The first line of an error; the token is in no message of the hub's client."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return f"the hub did not answer: {lines[0]}"
