"""/api/gc: what of the hub's cache is superseded, and deleting it."""

from __future__ import annotations

from dataclasses import asdict

from starlette.requests import Request
from starlette.responses import Response

from actors.errors import InvalidRequest
from routes.body import read_json
from routes.context import AppContext
from routes.library import served_folders
from routes.schema import fields
from routes.wire import json_response


class ClearingRoutes:
    """What is served, or being downloaded, is left alone. Raises LibraryUnavailable while the library is away."""

    def __init__(self, context: AppContext) -> None:
        self._context = context

    async def plan(self, request: Request) -> Response:
        """What could be deleted. Deletes nothing."""
        rows = await self._context.library.plan_gc(served_folders(self._context))
        total = sum(row.reclaim_bytes for row in rows)
        return json_response({"ok": True, "superseded": [asdict(row) for row in rows], "reclaim_bytes": total})

    async def execute(self, request: Request) -> Response:
        """Delete what a plan made now names. Raises InvalidRequest without `yes`."""
        body = await read_json(request, self._context.settings.server.max_body_bytes)
        if fields.boolean(body, "yes") is not True:
            raise InvalidRequest('deleting needs {"yes": true}')
        done = await self._context.library.execute_gc(served_folders(self._context))
        return json_response({"ok": True, **asdict(done)})
