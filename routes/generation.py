"""What the completion routes have in common: read a bounded body, check it, answer it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from actors.errors import ClientGone
from actors.ids import RequestId
from routes.answer import Job, answer
from routes.body import read_json
from routes.context import AppContext
from routes.embedding_only import refusal
from routes.exchange import Exchange, exchange_of
from routes.order import Order
from routes.schema.fields import Body
from routes.trace import Trace, phase

ReadRequest = Callable[[AppContext, Body, Mapping[str, str]], Awaitable[Order]]
"""From body and headers to what is wanted."""


@dataclass(frozen=True)
class Protocol:
    """What one route does in its own way."""

    new_id: Callable[[], RequestId]
    """Makes the id of a response."""
    read: ReadRequest
    """Checks a body; raises `InvalidRequest`."""


TRACE_HEADER = "x-mlx-bun-trace-id"
"""What the client calls a traced request."""

LONGEST_TRACE_ID = 256
"""Characters of it that are kept."""


class GenerationRoute:
    """A completion route, as an ASGI application."""

    def __init__(self, context: AppContext, protocol: Protocol) -> None:
        self._context = context
        self._protocol = protocol

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        context, protocol = self._context, self._protocol
        request_id = protocol.new_id()
        exchange = exchange_of(scope)
        exchange.request_id = request_id
        request = Request(scope, receive)
        if context.tracing:
            exchange.trace = Trace(request.headers.get(TRACE_HEADER, "")[:LONGEST_TRACE_ID], request_id, scope["path"])
        with context.gate.pass_through(), told(exchange):
            if not context.generates:
                raise refusal(context.card.model_id, "speech" if context.transcribes else "embedding")
            with phase(exchange.trace, "request.body_parse", "body_parse"):
                body = await read_json(request, context.settings.server.max_body_bytes)
                order = await protocol.read(context, body, request.headers)
            await answer(Job(context, request_id, order), scope, receive, send)


@contextmanager
def told(exchange: Exchange) -> Iterator[None]:
    """Write the trace, if there is one, when the block ends: how it went, also where a stream told its own error."""
    outcome = "error"
    try:
        yield
        outcome = "error" if exchange.error else "success"
    except (ClientGone, asyncio.CancelledError):
        outcome = "abort"
        raise
    finally:
        if exchange.trace is not None:
            exchange.trace.emit(outcome)
