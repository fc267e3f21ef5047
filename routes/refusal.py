"""How a request is refused before a route has seen it."""

from __future__ import annotations

from starlette.types import Scope, Send

from actors.errors import RequestError


async def turn_away(scope: Scope, send: Send, error: RequestError) -> None:
    """Raise over HTTP, where the error becomes a response; a WebSocket is closed before it opens, with 1008."""
    if scope["type"] != "websocket":
        raise error
    await send({"type": "websocket.close", "code": 1008, "reason": error.message})
