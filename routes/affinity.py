"""What a request says to the prompt cache: the conversation it belongs to, and whom it may share with. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from actors.errors import InvalidRequest
from actors.prompt_cache.partition import partition_of
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


def partition_from(body: Body) -> str:
    """The partition of the prompt cache that the body's `cache_salt` stands for.

    Raises:
        InvalidRequest: the salt is no string, is empty, or is longer than 512 characters.
    """
    salt = string(body, "cache_salt")
    if salt is not None and not 0 < len(salt) <= LONGEST:
        raise InvalidRequest(f"cache_salt must have 1 to {LONGEST} characters")
    return partition_of(salt)
