"""Server-sent events: the frames of a stream and the response that carries them."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.types import Send

from routes.errors import error_body
from routes.trace import Trace
from routes.wire import json_bytes

DONE = b"data: [DONE]\n\n"
HEARTBEAT = b": keep-alive\n\n"
"""A comment: clients that time out on silence hear it, parsers skip it."""
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]


def frame(payload: bytes, name: str | None = None) -> bytes:
    """One event, named where the protocol has names. JSON holds no line break, so it always fits one line."""
    return (b"" if name is None else b"event: " + name.encode() + b"\n") + b"data: " + payload + b"\n\n"


def error_frame(error: Exception) -> bytes:
    """The last event of a stream that failed after it had begun."""
    return frame(json_bytes(error_body(error)))


class EventStream:
    """Writes one stream. Each call is one write of the socket and waits while the socket is full."""

    def __init__(self, send: Send, headers: Mapping[str, str] | None = None, trace: Trace | None = None) -> None:
        """`headers` are sent beside those that every stream has; `trace` is told of the first and the last write."""
        self._send = send
        self._trace = trace
        self._headers = [*_HEADERS, *((name.encode(), value.encode()) for name, value in (headers or {}).items())]
        self.begun = False
        """Whether the headers have been sent."""

    async def begin(self, first: bytes = b"") -> None:
        """Send the headers, then the first frames."""
        self.begun = True
        await self._send({"type": "http.response.start", "status": 200, "headers": self._headers})
        if first:
            await self.write(first)

    async def write(self, frames: bytes) -> None:
        await self._send({"type": "http.response.body", "body": frames, "more_body": True})
        if self._trace is not None:
            self._trace.written(final=False)

    async def end(self, last: bytes = b"") -> None:
        """Send the last frames and close the stream."""
        await self._send({"type": "http.response.body", "body": last, "more_body": False})
        if self._trace is not None:
            self._trace.written(final=True)
