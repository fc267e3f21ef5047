"""GET /openapi.json."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from routes.door import Door
from routes.openapi.document import document
from routes.wire import json_bytes


class OpenApiRoute:
    """Describes the doors that it is given, itself among them once they are hung.

    Args:
        doors: every route; read when the first caller asks.
        version: of the server.
        keyed: whether callers need a key.
    """

    def __init__(self, doors: Sequence[Door], version: str, keyed: bool) -> None:
        self._doors = doors
        self._version = version
        self._keyed = keyed

    async def show(self, request: Request) -> Response:
        """The document. Made in a thread when it is asked for the first time, since that takes a tenth of a second."""
        content = await run_in_threadpool(lambda: self._document)
        return Response(content, media_type="application/json")

    @cached_property
    def _document(self) -> bytes:
        return json_bytes(document(self._doors, self._version, self._keyed))
