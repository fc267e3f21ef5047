"""The optional API key."""

from __future__ import annotations

import hmac

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from actors.errors import Unauthorized

_OPEN = ("/health",)


class KeyMiddleware:
    """Asks for the key, as a bearer token or in `x-api-key`, on every path but /health."""

    def __init__(self, app: ASGIApp, key: str) -> None:
        self._app = app
        self._key = key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises Unauthorized over HTTP; closes a WebSocket with 1008."""
        if scope["type"] not in ("http", "websocket") or scope["path"] in _OPEN or self._knows(Headers(scope=scope)):
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": "a valid API key is required"})
        else:
            raise Unauthorized("a valid API key is required")

    def _knows(self, headers: Headers) -> bool:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        given = [headers.get("x-api-key", ""), token.strip() if scheme.lower() == "bearer" else ""]
        return any(hmac.compare_digest(candidate.encode("latin-1"), self._key) for candidate in given)
