"""A route with what it asks of its callers, and its description. Every route of the application is one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from routes.keys import permit
from routes.operation import Operation

_ADMIN = ("/admin/", "/api/")


class Door(Route):
    """One path, with an operation for each of its methods.

    Args:
        path: as Starlette writes it.
        endpoint: a function of a request, or an ASGI application.
        operations: by method, in capitals.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **operations: Operation) -> None:
        super().__init__(path, endpoint, methods=list(operations))
        self.operations = operations
        for method, operation in operations.items():
            assert operation.right == "admin" or not path.startswith(_ADMIN), f"{method} {path} has to ask for admin"

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises Forbidden for a caller without the right."""
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        if method in self.operations:
            permit(scope, self.operations[method].right)
        await super().handle(scope, receive, send)
