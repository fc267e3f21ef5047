"""POST /admin/cache/session/close: a client's session is over."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from routes.body import read_json
from routes.context import AppContext
from routes.schema.fields import string
from routes.wire import json_response


class CacheSessionRoutes:
    """Sessions of the prompt cache."""

    def __init__(self, context: AppContext) -> None:
        self._context = context

    async def close(self, request: Request) -> Response:
        """Nothing is kept for the session's sake any more; what is stored stays as long as others may use it.

        Raises CacheUnavailable while the prompt-cache manager is away. May be repeated.
        """
        body = await read_json(request, self._context.settings.server.max_body_bytes)
        session = string(body, "session_id")
        if session:
            await self._context.close_session(session)
        return json_response({"closed": bool(session)})
