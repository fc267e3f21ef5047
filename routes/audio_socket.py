"""A session's WebSocket: chunks go in, and segments come out as they are found.

in    binary: float32 samples at 16 kHz        text: {"type": "finish"}
out   {"type": "receipt", "samples", "duration", "speech"}             for each chunk, when it is safe
      {"type": "segment", "segment"}                                   for each segment that is final
      {"type": "partial", "text"}                                      with `partials`: the unfinished window
      {"type": "done", ...}                                            the answer of `finish`; the socket closes
      {"type": "error", "error"}                                       as of any route
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

from actors.errors import InvalidRequest, RequestError, TroupeError
from actors.transcription.session_messages import Receipt
from routes.audio_sessions import finished_body, receipt_body
from routes.body import parse_json
from routes.context import AppContext
from routes.errors import error_body, error_response
from routes.wire import json_bytes

PATIENCE_S = 15.0
"""How long a call for news is parked."""

_NORMAL, _POLICY, _BROKEN = 1000, 1008, 1011


class AudioSocketRoute:
    """An ASGI application for one path of WebSockets."""

    def __init__(self, context: AppContext) -> None:
        self._context = context

    async def __call__(self, socket: WebSocket) -> None:
        """Serve one client. One that leaves does not end its session."""
        session_id = socket.path_params["session_id"]
        try:
            with self._context.gate.pass_through():
                first = await self._context.audio_sessions.follow(session_id, 0, None, 0.0)
        except TroupeError as error:
            await socket.send_denial_response(error_response(error, socket.url.path))
            return
        await socket.accept()
        talk = _Talk(self._context, socket, session_id)
        with contextlib.suppress(WebSocketDisconnect):
            await talk.tell(first)
            await talk.hold()


class _Talk:
    """One open socket."""

    def __init__(self, context: AppContext, socket: WebSocket, session_id: str) -> None:
        self._sessions = context.audio_sessions
        self._gate = context.gate
        self._socket = socket
        self._session_id = session_id
        self._order = asyncio.Lock()
        self._segments = 0
        """Segments that the client knows."""
        self._partial: str | None = None

    async def hold(self) -> None:
        """Take what the client sends until the session or the client is done."""
        follower = asyncio.ensure_future(self._follow())
        try:
            async for message in self._messages():
                try:
                    with self._gate.pass_through():
                        over = await self._take(message, follower)
                except InvalidRequest as error:
                    await self._send({"type": "error", **error_body(error)})
                    continue
                except TroupeError as error:
                    await self._end(error)
                    return
                if over:
                    await self._close(_NORMAL)
                    return
        finally:
            follower.cancel()
            await asyncio.wait({follower})

    async def tell(self, receipt: Receipt) -> None:
        """Send what the client does not know yet."""
        async with self._order:
            for segment in receipt.segments[self._segments :]:
                await self._write({"type": "segment", "segment": segment})
                self._segments += 1
            if receipt.partial is not None and receipt.partial != self._partial:
                self._partial = receipt.partial
                await self._write({"type": "partial", "text": receipt.partial})

    async def _messages(self) -> AsyncIterator[bytes | str]:
        while (message := await self._socket.receive())["type"] != "websocket.disconnect":
            data, text = message.get("bytes"), message.get("text")
            yield data if data is not None else text or ""

    async def _take(self, message: bytes | str, follower: asyncio.Future[None]) -> bool:
        """Whether that was the last message."""
        if isinstance(message, bytes):
            receipt = await self._sessions.append(self._session_id, message, raw=True)
            body = {name: value for name, value in receipt_body(receipt).items() if name not in ("segments", "partial")}
            await self._send({"type": "receipt", **body})
            await self.tell(receipt)
            return False
        if parse_json(message.encode("utf-8", "replace")).get("type") != "finish":
            raise InvalidRequest('send samples as binary messages, or {"type": "finish"}')
        follower.cancel()
        finished = await self._sessions.finish(self._session_id)
        segments = finished.transcript.segments
        await self.tell(Receipt(0, None, segments, None))
        await self._send({"type": "done", **finished_body(finished)})
        return True

    async def _follow(self) -> None:
        """Tell of windows that are transcribed between two chunks, and of a session that somebody else ends."""
        with contextlib.suppress(WebSocketDisconnect):
            try:
                while True:
                    news = await self._sessions.follow(self._session_id, self._segments, self._partial, PATIENCE_S)
                    await self.tell(news)
            except TroupeError as error:
                await self._end(error)

    async def _send(self, event: dict[str, Any]) -> None:
        async with self._order:
            await self._write(event)

    async def _write(self, event: dict[str, Any]) -> None:
        try:
            await self._socket.send_text(json_bytes(event).decode())
        except RuntimeError as error:
            raise WebSocketDisconnect from error  # the client closed it while something was written

    async def _end(self, error: TroupeError) -> None:
        """Nothing more can come of this session here."""
        await self._send({"type": "error", **error_body(error)})
        await self._close(_POLICY if isinstance(error, RequestError) else _BROKEN)

    async def _close(self, code: int) -> None:
        with contextlib.suppress(RuntimeError):
            await self._socket.close(code)
