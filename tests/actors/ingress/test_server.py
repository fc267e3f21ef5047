"""The ingress's own HTTP server."""

from __future__ import annotations

import asyncio
import json

from starlette.applications import Starlette

from actors.ingress.server import HttpServer, bind
from tests.support.server import free_port


async def test_broken_http_is_answered_in_the_shape_of_every_error() -> None:
    port = free_port()
    server = HttpServer(Starlette(), bind("127.0.0.1", port, shared=False), 1.0)
    server.start()
    try:
        async with asyncio.timeout(30):
            while True:
                try:
                    reader, writer = await asyncio.open_connection("127.0.0.1", port)
                    break
                except OSError:
                    await asyncio.sleep(0.01)
            writer.write(b"GET / HTTP/1.1\r\nhost: a\r\nbad\x7f: x\r\n\r\n")
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
    finally:
        await server.stop()
    assert head.split(b"\r\n")[0] == b"HTTP/1.1 400 Bad Request"
    assert b"content-type: application/json" in head.lower()
    error = json.loads(body)["error"]
    assert error["type"] == "invalid_request_error"
    assert "Invalid HTTP request" in error["message"]
