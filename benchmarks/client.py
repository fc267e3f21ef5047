"""A client that costs little: one socket a request, bytes kept as they come, read when everything is over."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.stream import Reply, read_reply

Message = Mapping[str, str]
Fields = Mapping[str, Any]


def user(text: str) -> Message:
    return {"role": "user", "content": text}


class Call(asyncio.Protocol):
    """One request on its way. Made by `Client.start`."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._pieces: list[tuple[float, bytes]] = []
        self._transport: asyncio.Transport | None = None
        self._closed = asyncio.get_running_loop().create_future()
        self._awaited: tuple[int, asyncio.Future[None]] | None = None
        self.sent_at = time.perf_counter()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._pieces.append((time.perf_counter(), data))
        if self._awaited is not None and len(self._pieces) >= self._awaited[0]:
            self._settle()

    def connection_lost(self, exc: Exception | None) -> None:
        self._settle()
        if not self._closed.done():
            self._closed.set_result((time.perf_counter(), str(exc) if exc else ""))

    def fail(self, reason: str) -> None:
        """The connection could not be made."""
        self._closed.set_result((time.perf_counter(), reason))

    def _settle(self) -> None:
        if self._awaited is not None and not self._awaited[1].done():
            self._awaited[1].set_result(None)

    async def pieces(self, count: int) -> None:
        """Wait until `count` pieces have come, or the connection has ended. One waiter at a time."""
        if len(self._pieces) < count and not self._closed.done():
            self._awaited = (count, asyncio.get_running_loop().create_future())
            await self._awaited[1]

    async def reply(self) -> Reply:
        """Wait for the end and read what came. Never raises for what the server did."""
        ended_at, broken = await self._closed
        return read_reply(self.sent_at, ended_at, self._pieces, broken)

    async def abandon(self) -> Reply:
        """Leave as a client that lost interest, and read what came until then."""
        if self._transport is not None:
            self._transport.abort()
        return await self.reply()


class Client:
    """Speaks to one server.

    Args:
        host: address.
        port: TCP port.
        patience_s: longest wait for one answer.
    """

    def __init__(self, host: str, port: int, patience_s: float = 300.0) -> None:
        self._host = host
        self._port = port
        self._patience_s = patience_s

    async def start(self, messages: Sequence[Message], max_tokens: int, more: Fields | None = None) -> Call:
        """Send a greedy streamed chat with more fields. A refused connection shows in the reply."""
        call = Call(self._chat(messages, max_tokens, more or {}))
        try:
            await asyncio.get_running_loop().create_connection(lambda: call, self._host, self._port)
        except OSError as error:
            call.fail(str(error))
        return call

    async def chat(self, messages: Sequence[Message], max_tokens: int, more: Fields | None = None) -> Reply:
        """Send a chat and wait for all of it. Raises `TimeoutError` when the server answers nothing for too long."""
        call = await self.start(messages, max_tokens, more)
        async with asyncio.timeout(self._patience_s):
            return await call.reply()

    async def chats(
        self, prompts: Sequence[Sequence[Message]], max_tokens: int, more: Sequence[Fields] | None = None
    ) -> list[Reply]:
        """Send all of them at once, each on a connection of its own; `more` holds further fields of each."""
        extras = more or [{}] * len(prompts)
        sent = zip(prompts, extras, strict=True)
        return await asyncio.gather(*(self.chat(messages, max_tokens, extra) for messages, extra in sent))

    def _chat(self, messages: Sequence[Message], max_tokens: int, more: Fields) -> bytes:
        fields: dict[str, Any] = {
            # The name mlx_lm.server gives to the model it was started with; Troupe takes any name.
            "model": "default_model",
            "messages": [dict(message) for message in messages],
            "max_tokens": max_tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
            **more,
        }
        body = json.dumps(fields).encode()
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: {self._host}:{self._port}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        return head.encode() + body
