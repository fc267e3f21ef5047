"""The optional API keys, in front of every route."""

from __future__ import annotations

from collections.abc import Collection

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from actors.errors import Unauthorized
from routes.keys import KeyRing, remember
from routes.refusal import turn_away


class KeyMiddleware:
    """Notes who calls; which route may be used then, its door says.

    Args:
        app: the application behind.
        ring: the keys.
        open_paths: paths that ask for no key.
    """

    def __init__(self, app: ASGIApp, ring: KeyRing, open_paths: Collection[str]) -> None:
        self._app = app
        self._ring = ring
        self._open = frozenset(open_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises Unauthorized over HTTP for a path that is not open; closes a WebSocket with 1008."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        caller = self._ring.caller(Headers(scope=scope))
        if caller is not None:
            remember(scope, caller)
        elif scope["path"] not in self._open:
            await turn_away(scope, send, Unauthorized("a valid API key is required"))
            return
        await self._app(scope, receive, send)
