"""HTTP as the ingress speaks it: uvicorn's, with bounds on what comes before a body.

The parser below it has none. It collects a header that never ends until the memory does.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from actors.errors import HeadersTooLarge, InvalidRequest, RequestError
from routes.errors import error_body
from routes.wire import json_bytes

_OFFER = (b"upgrade", b"http2-settings")
"""Headers of one who would like to speak something else."""

LINGER_S = 2.0
"""How long a refused client may go on sending, unread, so that it comes to reading the refusal."""


@dataclass(frozen=True, slots=True)
class HeadLimits:
    """Bounds on the request line and the headers."""

    size: int = 64 * 2**10
    """Bytes of both together."""
    count: int = 100
    """Headers."""
    patience_s: float = 60.0
    """How long they may take to arrive, from their first byte or from the opening of the connection."""
    message_size: int = 64 * 2**20
    """Bytes of a message on a WebSocket."""


class BoundedConfig(uvicorn.Config):
    """uvicorn's own, and the limits."""

    limits: HeadLimits = HeadLimits()


class Protocol(HttpToolsProtocol):
    """One connection. Refusals are in the shape of every other error."""

    def __init__(self, config: uvicorn.Config, *args: Any, **more: Any) -> None:
        super().__init__(config, *args, **more)
        self._limits = config.limits if isinstance(config, BoundedConfig) else HeadLimits()
        self._open = True
        """Whether a head, or what may follow a body in chunks, is awaited or under way."""
        self._size = 0
        """Bytes of it so far, without those that came in one piece with what was before it."""
        self._moved = False
        """Whether something came to its end within the piece that is parsed."""
        self._failure: RequestError | None = None
        """Why the parser was stopped from within."""
        self._refused = False
        self._declined = False
        """Whether the head that was parsed last offered to speak something else, which is not taken up."""
        self._late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._arrived()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return  # sent before the client read that nothing more is wanted
        self._moved = False
        self._feed(data)
        if self._open and not self._moved and not self._refused:
            self._size += len(data)
            if self._size > self._limits.size:
                self._refuse(self._too_large())

    def _feed(self, data: bytes) -> None:
        """As uvicorn does, but that a declined offer leaves a request as good as any.

        Java's HttpClient and `curl --http2` offer HTTP/2 with each first request. The parser takes what follows such a
        head for the other protocol, and the body would be lost.
        """
        self._unset_keepalive_if_required()
        rest = memoryview(data)
        try:
            while (offset := self._parse(rest)) is not None:
                rest = rest[offset:]
                self._repeat_head()
        except httptools.HttpParserError:
            self.send_400_response("Invalid HTTP request received.")

    def _parse(self, data: memoryview) -> int | None:
        """Where, in some bytes, what came after a declined offer begins; None when there was none."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            if self._should_upgrade():
                self.handle_websocket_upgrade()
            elif self._declined:
                return upgrade.args[0]
        return None

    def _repeat_head(self) -> None:
        """Parse the last head once more, without its offer."""
        version = self.parser.get_http_version().encode()
        lines = [self.parser.get_method() + b" " + self.url + b" HTTP/" + version]
        lines += [name + b": " + _without_offer(name, value) for name, value in self.headers if name not in _OFFER]
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self.parser.feed_data(b"\r\n".join(lines) + b"\r\n\r\n")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._wait()

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        if len(self.headers) > self._limits.count:
            self._fail(HeadersTooLarge(f"the request has more than {self._limits.count} headers"))

    def on_headers_complete(self) -> None:
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > self._limits.size:
            self._fail(self._too_large())
        # CONNECT is no offer: it goes on to be refused as any method that is not served.
        self._declined = (
            self.parser.should_upgrade() and not self._should_upgrade() and self.parser.get_method() != b"CONNECT"
        )
        self._open, self._moved = False, True
        if self._declined:
            return
        self._arrived()
        super().on_headers_complete()

    def on_chunk_header(self) -> None:
        """After the last chunk come more headers, which are collected as the first ones are."""
        self._open, self._moved, self._size = True, True, 0

    def on_body(self, body: bytes) -> None:
        self._open, self._moved = False, True
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self._declined:
            return  # it begins anew
        super().on_message_complete()
        self._open, self._moved, self._size = True, True, 0

    def send_400_response(self, msg: str) -> None:
        """What uvicorn calls when its parser stops, be it of its own accord or of ours."""
        self._refuse(self._failure or InvalidRequest(msg))

    def _fail(self, error: RequestError) -> None:
        """Stop the parser, from within."""
        self._failure = error
        raise error

    def _too_large(self) -> RequestError:
        return HeadersTooLarge(f"request line and headers are longer than {self._limits.size} bytes")

    def _refuse(self, error: RequestError) -> None:
        self._refused = True
        self._arrived()
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
            if cycle.response_started:
                self.transport.close()  # nothing can be said in the midst of an answer
                return
        body = json_bytes(error_body(error))
        reason = "Bad Request" if error.status == 400 else "Request Header Fields Too Large"
        head = (
            f"HTTP/1.1 {error.status} {reason}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(LINGER_S, self.transport.close)

    def _wait(self) -> None:
        """Begin to wait for a whole head, if that has not begun."""
        if self._late is None:
            self._late = self.loop.call_later(self._limits.patience_s, self._give_up)

    def _give_up(self) -> None:
        self._late = None
        if self.cycle is not None and not self.cycle.response_complete:
            self._wait()  # an answer is under way, and the next request came early
        else:
            self.timeout_keep_alive_handler()

    def _arrived(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


def _without_offer(name: bytes, value: bytes) -> bytes:
    """A header's value, without the names of the headers that go."""
    if name != b"connection":
        return value
    return b", ".join(token for token in map(bytes.strip, value.split(b",")) if token.lower() not in _OFFER)
