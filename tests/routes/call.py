"""Requests spoken to the application by hand, step by step."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.applications import Starlette


class Call:
    """One request spoken to the application by hand, so that a test decides when the client leaves."""

    def __init__(self, app: Starlette, path: str, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.sent: list[Any] = []
        self.streamed = asyncio.Event()
        self._left = asyncio.Event()
        self._body: list[bytes] = [body]
        self.sending: Callable[[Any], Awaitable[None]] | None = None
        """Takes what is sent, in the place of `sent`."""
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "scheme": "http",
            "server": ("test", 80),
            "client": ("test", 1),
            "headers": [
                (name.encode(), value.encode()) for name, value in {"host": "localhost", **(headers or {})}.items()
            ],
        }
        self.task = asyncio.ensure_future(app(scope, self._receive, self._send))

    def leave(self) -> None:
        """The client closes its connection."""
        self._left.set()

    @property
    def status(self) -> int | None:
        """The status that was sent, if any."""
        return next((message["status"] for message in self.sent if message["type"] == "http.response.start"), None)

    @property
    def body(self) -> bytes:
        """The body as far as it was sent."""
        return b"".join(message.get("body", b"") for message in self.sent)

    async def _receive(self) -> dict[str, Any]:
        if self._body:
            return {"type": "http.request", "body": self._body.pop(), "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if self.sending is not None:
            await self.sending(message)
        self.sent.append(message)
        if message["type"] == "http.response.body":
            self.streamed.set()


async def turns(count: int = 20) -> None:
    """Let the event loop run what is ready."""
    for _ in range(count):
        await asyncio.sleep(0)
