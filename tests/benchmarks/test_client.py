"""benchmarks/client.py, against a server of three lines."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from benchmarks.client import Client, user

Speak = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]
HEAD = b"HTTP/1.1 200 OK\r\n\r\n"
PIECE = b'data: {"choices": [{"delta": {"content": "word "}}]}\n\n'


@asynccontextmanager
async def serving(speak: Speak) -> AsyncIterator[Client]:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        await speak(await reader.readexactly(length), writer)
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield Client("127.0.0.1", server.sockets[0].getsockname()[1])


async def test_a_chat_is_asked_for_greedily_and_as_a_stream() -> None:
    bodies: list[bytes] = []

    async def speak(body: bytes, writer: asyncio.StreamWriter) -> None:
        bodies.append(body)
        writer.write(HEAD + PIECE + b"data: [DONE]\n\n")

    async with serving(speak) as client:
        reply = await client.chat([user("hello")], 5)
    assert reply.whole
    assert reply.text == "word "
    asked = json.loads(bodies[0])
    assert (asked["messages"], asked["max_tokens"]) == ([{"role": "user", "content": "hello"}], 5)
    assert (asked["temperature"], asked["stream"]) == (0, True)


async def test_chats_run_side_by_side() -> None:
    together = asyncio.Barrier(3)

    async def speak(body: bytes, writer: asyncio.StreamWriter) -> None:
        await together.wait()
        writer.write(HEAD + PIECE + b"data: [DONE]\n\n")

    async with serving(speak) as client:
        replies = await client.chats([[user(str(number))] for number in range(3)], 5)
    assert [reply.whole for reply in replies] == [True] * 3


async def test_a_call_may_be_abandoned_after_some_pieces() -> None:
    left = asyncio.Event()

    async def speak(body: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + PIECE)
        await left.wait()

    async with serving(speak) as client:
        call = await client.start([user("hello")], 5)
        await call.pieces(1)
        reply = await call.abandon()
        left.set()
    assert not reply.whole
    assert reply.text == "word "


async def test_waiting_for_pieces_ends_with_the_connection() -> None:
    async def speak(body: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 429 Too Many\r\n\r\nbusy")

    async with serving(speak) as client:
        call = await client.start([user("hello")], 5)
        await call.pieces(1_000)
        reply = await call.reply()
    assert (reply.status, reply.error) == (429, "busy")


async def test_a_refused_connection_is_a_reply_too() -> None:
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    reply = await Client("127.0.0.1", port).chat([user("hello")], 5)
    assert reply.status == 0
    assert reply.error
