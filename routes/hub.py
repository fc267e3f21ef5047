"""/api/hub: the models on disk, a search on the hub, and starting a download."""

from __future__ import annotations

import shlex

from starlette.requests import Request
from starlette.responses import Response

from actors.errors import InvalidRequest
from actors.library.messages import LibraryEntry
from routes.body import read_json
from routes.context import AppContext
from routes.library import entry_row
from routes.schema import fields
from routes.wire import json_response


class HubRoutes:
    """No route opens a path that a request names; models are named by their repositories."""

    def __init__(self, context: AppContext) -> None:
        self._context = context

    async def local(self, request: Request) -> Response:
        """Every cached model. Raises LibraryUnavailable."""
        entries = await self._context.library.models()
        return json_response({"ok": True, "models": [_row(entry) for entry in entries]})

    async def search(self, request: Request) -> Response:
        """Models for MLX on the hub. Raises InvalidRequest without `q`; a hub that is away is no error."""
        query = request.query_params.get("q", "").strip()
        if not query:
            raise InvalidRequest("q required")
        found = await self._context.library.search(query)
        if found.offline is not None:
            return json_response({"ok": True, "offline": True, "error": found.offline, "results": []})
        results = [
            {"id": model.repo_id, "downloads": model.downloads, "likes": model.likes, "size_estimate": None}
            for model in found.models
        ]
        return json_response({"ok": True, "offline": False, "results": results})

    async def download(self, request: Request) -> Response:
        """Start a download. Raises InvalidRequest, Conflict while it runs already, and QueueFull."""
        repository = await self._named(request, "repo")
        await self._context.library.download(repository)
        return json_response({"ok": True, "repo": repository, "started": True})

    async def serve(self, request: Request) -> Response:
        """How to serve another model: the running server keeps the one it has."""
        command = f"troupe serve --model {shlex.quote(await self._named(request, 'model'))}"
        return json_response({"ok": False, "restart_required": True, "command": command})

    async def _named(self, request: Request, field: str) -> str:
        body = await read_json(request, self._context.settings.server.max_body_bytes)
        name = (fields.string(body, field) or "").strip()
        if not name:
            raise InvalidRequest(f"{field} required")
        return name


def _row(entry: LibraryEntry) -> dict[str, object]:
    return {**entry_row(entry), "quant_group_size": entry.quant_group_size}
