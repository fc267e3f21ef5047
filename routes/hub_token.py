"""/api/settings/hf-token: the token for the hub. It comes in and is never shown."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from routes.body import read_json
from routes.context import AppContext
from routes.schema import fields
from routes.wire import json_response


class HubTokenRoute:
    """One path, by method. Raises LibraryUnavailable while the library is away or its folder cannot be written."""

    def __init__(self, context: AppContext) -> None:
        self._context = context

    async def answer(self, request: Request) -> Response:
        """Say whether there is a token, save one, or forget it. Raises InvalidRequest for what is none."""
        library = self._context.library
        if request.method == "POST":
            body = await read_json(request, self._context.settings.server.max_body_bytes)
            await library.save_token(fields.string(body, "token") or "")
            return json_response({"ok": True})
        if request.method == "DELETE":
            await library.forget_token()
            return json_response({"ok": True})
        return json_response({"ok": True, "hasToken": await library.has_token()})
