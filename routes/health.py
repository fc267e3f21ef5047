"""GET /health."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from actors.errors import EngineUnavailable, ShuttingDown
from routes.context import AppContext
from routes.errors import error_body
from routes.wire import json_response


class HealthRoute:
    """Whether a request would be served now. Being busy is being well."""

    def __init__(self, context: AppContext) -> None:
        self._context = context

    async def show(self, request: Request) -> Response:
        """`{"status": "ok"}`, or 503 with the reason while the scheduler is down or the server is stopping."""
        if self._context.gate.draining:
            return json_response(error_body(ShuttingDown("the server is shutting down")), 503)
        try:
            # Asked, not remembered: what was served is known while the scheduler restarts, that it serves is not.
            embeddings = self._context.embeddings
            if self._context.transcribes:
                state = await self._context.transcription.statistics()
                return json_response({"status": "ok", "transcription": state.block()})
            main = self._context.generation if embeddings is None or self._context.generates else embeddings.client
            await main.statistics()
        except EngineUnavailable as error:
            return json_response(error_body(error), 503)
        # A constant, spaces included: clients of other servers compare it byte for byte.
        return Response(b'{"status": "ok"}', media_type="application/json")
