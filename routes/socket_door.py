"""A WebSocket's route with what it asks of its callers. OpenAPI has no words for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.routing import WebSocketRoute
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from actors.errors import Forbidden
from routes.keys import Right, permit
from routes.refusal import turn_away


class SocketDoor(WebSocketRoute):
    """One path.

    Args:
        path: as Starlette writes it.
        endpoint: serves a socket that is not accepted yet.
        right: what its callers need.
    """

    def __init__(self, path: str, endpoint: Callable[[WebSocket], Awaitable[None]], right: Right) -> None:
        async def serve(socket: WebSocket) -> None:
            await endpoint(socket)

        super().__init__(path, serve)
        self._right: Right = right

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Closes the socket of a caller without the right before it opens, with 1008."""
        try:
            permit(scope, self._right)
        except Forbidden as error:
            await turn_away(scope, send, error)
            return
        await super().handle(scope, receive, send)
