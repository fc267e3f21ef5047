"""Session affinity of a request: which conversation its prompt prefix belongs to. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from actors.errors import InvalidRequest
from routes.schema.fields import Body, string

LONGEST = 512


def session_of(body: Body, headers: Mapping[str, str]) -> str | None:
    """The session's label, or None.

    The body's `session_id` wins over its `prompt_cache_key`, then come the headers `x-session-affinity` and
    `session_id`. An empty label counts as absent.

    Raises:
        InvalidRequest: a label is no string or is longer than 512 characters.
    """
    given = (
        ("session_id", string(body, "session_id")),
        ("prompt_cache_key", string(body, "prompt_cache_key")),
        ("x-session-affinity", headers.get("x-session-affinity")),
        ("session_id", headers.get("session_id")),
    )
    for name, label in given:
        if label and len(label) > LONGEST:
            raise InvalidRequest(f"{name} must be at most {LONGEST} characters")
    return next((label for _, label in given if label), None)
