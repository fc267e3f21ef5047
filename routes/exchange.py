"""One HTTP exchange: its id, its figures for the access log, and the last word on its errors."""

from __future__ import annotations

import logging
import secrets
from dataclasses import dataclass, field

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from actors.clock import Clock
from actors.errors import ClientGone, TroupeError
from routes.errors import error_response
from routes.keys import ANYONE, caller_of
from routes.trace import Trace

_KEY = "troupe.exchange"
_access = logging.getLogger("troupe.access")
_log = logging.getLogger("troupe.routes")


@dataclass(slots=True)
class Exchange:
    """What is known of one request while it lasts. Durations are in seconds since it came in."""

    request_id: str
    """Sent back as `x-request-id`."""
    clock: Clock
    """Measures the durations."""
    started: float = field(init=False)
    """The clock's time when it came in."""
    status: int = 0
    """HTTP status; 499 when the client left before there was one, 0 while there is none."""
    error: str = ""
    """Class of the error that ended it, also when it came after the status."""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    choices: int = 1
    """Answers that were generated side by side."""
    prepared_s: float | None = None
    """When its prompt was ready."""
    trace: Trace | None = None
    """Collects the phases of a traced request."""
    first_token_s: float | None = None
    """When its first delta came."""

    def __post_init__(self) -> None:
        self.started = self.clock.now()

    def elapsed(self) -> float:
        return self.clock.now() - self.started


def exchange_of(scope: Scope) -> Exchange:
    """The exchange of a request that came through `ExchangeMiddleware`."""
    return scope[_KEY]


class ExchangeMiddleware:
    """Outermost: gives each request its exchange, adds `x-request-id`, and writes one access line at its end."""

    def __init__(self, app: ASGIApp, clock: Clock) -> None:
        self._app = app
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = scope[_KEY] = Exchange(f"req-{secrets.token_hex(12)}", self._clock)

        async def send_named(message: Message) -> None:
            if message["type"] == "http.response.start":
                exchange.status = message["status"]
                named = [(name, exchange.request_id.encode()) for name in _names(scope["path"])]
                message["headers"] = [*message.get("headers", ()), *named]
            try:
                await send(message)
            except (OSError, RuntimeError) as error:
                if not _closed(error):
                    raise
                raise ClientGone("the client left") from error

        try:
            await self._app(scope, receive, send_named)
        finally:
            _access.info(_line(scope, exchange), extra={"troupe": _figures(scope, exchange)})


def _names(path: str) -> tuple[bytes, ...]:
    """Headers that carry the request's id; Anthropic's clients know it by another name."""
    return (b"x-request-id", b"request-id") if path.startswith("/v1/messages") else (b"x-request-id",)


def _closed(error: OSError | RuntimeError) -> bool:
    """Whether a write failed because the connection is no more; uvloop has no type of its own for that."""
    return isinstance(error, OSError) or "handler is closed" in str(error)


class ErrorMiddleware:
    """Turns whatever a route raises into a response in the protocol's shape. Cancellation passes through.

    An error after the response has begun cannot be told here any more: streams tell it themselves.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = exchange_of(scope)
        try:
            await self._app(scope, receive, send)
        except ClientGone:
            exchange.error = ClientGone.__name__
            exchange.status = exchange.status or ClientGone.status
        except Exception as error:
            note_error(exchange, error)
            if not exchange.status:
                await error_response(error, scope["path"])(scope, receive, send)


def note_error(exchange: Exchange, error: Exception) -> None:
    """Remember the error for the access line; log the stack when the server is at fault."""
    exchange.error = type(error).__name__
    if not isinstance(error, TroupeError) or error.status == 500:
        _log.error("%s failed", exchange.request_id, exc_info=error)


def _figures(scope: Scope, exchange: Exchange) -> dict[str, object]:
    caller = caller_of(scope)
    figures = {
        "request_id": exchange.request_id,
        "method": scope["method"],
        "route": scope["path"],
        "status": exchange.status,
        "key": None if caller is None or caller.name == ANYONE else caller.name,
        "prompt_tokens": exchange.prompt_tokens,
        "cached_tokens": exchange.cached_tokens,
        "completion_tokens": exchange.completion_tokens,
        "prepared_s": _rounded(exchange.prepared_s),
        "first_token_s": _rounded(exchange.first_token_s),
        "total_s": _rounded(exchange.elapsed()),
        "error": exchange.error or None,
    }
    return {name: value for name, value in figures.items() if value is not None}


def _line(scope: Scope, exchange: Exchange) -> str:
    return " ".join(f"{name}={_quoted(value)}" for name, value in _figures(scope, exchange).items())


def _quoted(value: object) -> str:
    """One word a figure, whatever a client puts into a path."""
    text = str(value)
    return text if text.isascii() and text.isprintable() and not set(text) & set(' "=') else ascii(text)


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 4)
