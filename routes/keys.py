"""Who calls, and what they may. Pure."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from starlette.datastructures import Headers
from starlette.types import Scope

from actors.errors import Forbidden
from actors.server_settings import ServerSettings, is_loopback

Right = Literal["open", "inference", "admin"]
"""What a route asks of its caller: nothing, that it may use the models, or that it may change the server."""

ANYONE = "anyone"
"""Whoever calls a server without keys."""

_CALLER = "troupe.caller"
_ALL: frozenset[Right] = frozenset({"open", "inference", "admin"})


@dataclass(frozen=True, slots=True)
class Caller:
    """Whoever sent a request."""

    name: str
    """Name of the key; `anyone` without keys."""
    rights: frozenset[Right]
    """What it may do."""
    lacking: str
    """What to say when that is not enough."""


class KeyRing:
    """The keys of a server.

    Digests are compared, and all of them every time, so that neither the length of a key nor how much of it was right
    can be told from the time it takes.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self._keys: dict[str, tuple[bytes, frozenset[Right]]] = {
            key.name: (_digest(key.key.get_secret_value().encode()), frozenset({"open", *key.scopes}))
            for key in settings.api_keys
        }
        if settings.api_key is not None:
            self._keys["api_key"] = (_digest(settings.api_key.get_secret_value().encode()), _ALL)
        self._host = settings.host

    def caller(self, headers: Headers) -> Caller | None:
        """Who shows a key, as a bearer token or in `x-api-key`; None for a wrong one or none.

        Where there are no keys, everybody is `anyone`, who may change the server only while it listens on loopback.
        """
        if not self._keys:
            return _anyone(self._host)
        # Header bytes arrive as Latin-1 text, whatever they are; keys are compared as bytes of UTF-8.
        given = [_digest(candidate.encode("latin-1")) for candidate in _candidates(headers)]
        found: Caller | None = None
        for name, (digest, rights) in self._keys.items():
            matches = [hmac.compare_digest(candidate, digest) for candidate in given]
            if any(matches):
                found = Caller(name, rights, f"the API key named {name!r} does not open this route")
        return found


def remember(scope: Scope, caller: Caller) -> None:
    """Note on a request who sent it."""
    scope[_CALLER] = caller


def caller_of(scope: Scope) -> Caller | None:
    """Who sent a request; None if it is not known, or not yet."""
    return scope.get(_CALLER)


def permit(scope: Scope, right: Right) -> None:
    """Raises Forbidden unless the caller of a request has a right. Whom nobody noted has none."""
    caller = caller_of(scope)
    if right == "open":
        return
    if caller is None or right not in caller.rights:
        raise Forbidden(caller.lacking if caller else "this route is closed")


def _anyone(host: str) -> Caller:
    if is_loopback(host):
        return Caller(ANYONE, _ALL, "")
    closed = "this route is closed while the server listens beyond loopback and has no API keys (server.api_keys)"
    return Caller(ANYONE, frozenset({"open", "inference"}), closed)


def _candidates(headers: Headers) -> Iterable[str]:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return headers.get("x-api-key", "").strip(), token.strip() if scheme.lower() == "bearer" else ""


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
