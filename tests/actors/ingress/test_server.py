"""The ingress's own HTTP server, over real sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import pytest
from starlette.types import Receive, Scope, Send

from actors.ingress.protocol import HeadLimits, Protocol
from actors.ingress.server import HttpServer, bind
from tests.support.server import free_port

HEAD = b"GET / HTTP/1.1\r\nhost: a\r\n"
PATIENCE_S = 30.0


@dataclass
class Echo:
    """Answers with the number of headers, and, once it may, with the length of the body."""

    calls: int = 0
    may_end: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.calls += 1
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            size, more = size + len(message["body"]), message["more_body"]
        if scope["path"] == "/slow":
            await send({"type": "http.response.start", "status": 200, "headers": [(b"transfer-encoding", b"chunked")]})
            await send({"type": "http.response.body", "body": b"begun", "more_body": True})
            await self.may_end.wait()
        else:
            await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": f"{len(scope['headers'])} {size};".encode()})


@asynccontextmanager
async def serving(app: Echo, limits: HeadLimits) -> AsyncIterator[int]:
    port = free_port()
    server = HttpServer(app, bind("127.0.0.1", port, shared=False), 1.0, limits)
    server.start()
    try:
        async with asyncio.timeout(PATIENCE_S):
            yield port
    finally:
        app.may_end.set()
        await server.stop()


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    while True:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            break
        except OSError:
            await asyncio.sleep(0.01)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def ask(port: int, *pieces: bytes) -> bytes:
    """Everything that is answered to some bytes, until the server ends the connection."""
    async with connected(port) as (reader, writer):
        with suppress(OSError):  # a server may stop listening in the midst
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
        return await reader.read()


def refused(answer: bytes, status: bytes) -> str:
    """The message of a refusal, which must be the only answer."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.split(b"\r\n")[0] == b"HTTP/1.1 " + status
    assert b"content-type: application/json" in head.lower()
    error = json.loads(body)["error"]
    assert error["type"] == "invalid_request_error"
    return error["message"]


SMALL = HeadLimits(size=1000, count=10)
CLOSE = b"connection: close\r\n\r\n"


@pytest.mark.parametrize("raw", [HEAD + b"bad\x7f: x\r\n\r\n", b"\x16\x03\x01\x02\x00 no HTTP\r\n\r\n"])
async def test_broken_http_is_answered_in_the_shape_of_every_error(raw: bytes) -> None:
    app = Echo()
    async with serving(app, HeadLimits()) as port:
        assert "Invalid HTTP request" in refused(await ask(port, raw), b"400 Bad Request")
    assert app.calls == 0


@pytest.mark.parametrize(
    "pieces",
    [
        [HEAD + b"x: " + b"a" * 1000 + b"\r\n\r\n"],
        [HEAD + b"x: ", *[b"a" * 100] * 100],
        [HEAD + b"a" * 1000 + b": x\r\n\r\n"],
        [b"GET /" + b"a" * 1000 + b" HTTP/1.1\r\nhost: a\r\n\r\n"],
        [b"GET /", *[b"a" * 100] * 100],
        [b"\r\n" * 100] * 20,
        [b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx: ", *[b"a" * 100] * 100],
    ],
    ids=["value", "endless value", "name", "path", "endless path", "empty lines", "endless trailer"],
)
async def test_a_head_that_is_too_large_is_a_431(pieces: list[bytes]) -> None:
    async with serving(Echo(), SMALL) as port:
        answer = await ask(port, *pieces)
    assert "longer than 1000 bytes" in refused(answer, b"431 Request Header Fields Too Large")


async def test_a_head_without_end_is_not_collected() -> None:
    async with serving(Echo(), HeadLimits()) as port:
        answer = await ask(port, HEAD + b"x: ", *[b"a" * 65536] * 200)
    assert answer.startswith(b"HTTP/1.1 431")


async def test_too_many_headers_are_a_431() -> None:
    lines = [f"x-{number}: a\r\n".encode() for number in range(9)]
    async with serving(Echo(), SMALL) as port:
        assert (await ask(port, HEAD, *lines[:8], CLOSE)).count(b"10 0;") == 1
        answer = await ask(port, HEAD, *lines, CLOSE)
    assert "more than 10 headers" in refused(answer, b"431 Request Header Fields Too Large")


async def test_limits_are_for_heads_and_not_for_bodies() -> None:
    head = b"POST / HTTP/1.1\r\nhost: a\r\n"
    plain = head + b"content-length: 100000\r\n" + CLOSE + b"x" * 100_000
    chunked = head + b"transfer-encoding: chunked\r\n" + CLOSE + b"3e8\r\n" + b"x" * 1000 + b"\r\n"
    chunk = b"3e8\r\n" + b"x" * 1000 + b"\r\n"
    async with serving(Echo(), SMALL) as port:
        assert (await ask(port, plain)).count(b"3 100000;") == 1
        assert (await ask(port, chunked, *[chunk] * 20, b"0\r\n\r\n")).count(b"3 21000;") == 1


@pytest.mark.parametrize("size", [1300, 65_536, 70_000, 300_000])
@pytest.mark.parametrize("cut", [1300, 65_536, 65_537])
async def test_large_bodies_may_come_in_pieces_one_after_another_on_one_connection(size: int, cut: int) -> None:
    head = b"POST / HTTP/1.1\r\nhost: a\r\nx: " + b"a" * 1300 + b"\r\n"
    plain = head + f"content-length: {size}\r\n\r\n".encode() + b"x" * size
    chunked = head + f"transfer-encoding: chunked\r\n\r\n{size:x}\r\n".encode() + b"x" * size + b"\r\n0\r\n\r\n"
    async with serving(Echo(), HeadLimits()) as port, connected(port) as (reader, writer):
        for request in (plain, chunked, plain, chunked):
            for start in range(0, len(request), cut):
                writer.write(request[start : start + cut])
                await writer.drain()
            assert f"3 {size};".encode() in await reader.readuntil(b";")


OFFER = b"connection: Upgrade, HTTP2-Settings, keep-alive\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk\r\n"


@pytest.mark.parametrize("cut", [1, 50, 100_000])
async def test_an_offer_of_another_protocol_costs_a_request_nothing(cut: int) -> None:
    """Java's HttpClient and `curl --http2` make it."""
    head = b"POST / HTTP/1.1\r\nhost: a\r\n" + OFFER
    plain = head + b"content-length: 5\r\n\r\nhello"
    chunked = head + b"transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    without_body = HEAD + OFFER + b"\r\n"
    sent = plain + chunked + without_body + plain + HEAD + CLOSE
    app = Echo()
    async with serving(app, HeadLimits()) as port:
        answer = await ask(port, *[sent[start : start + cut] for start in range(0, len(sent), cut)])
    assert answer.count(b"HTTP/1.1 200") == app.calls == 5
    assert [answer.count(text) for text in (b"3 5;", b"2 0;")] == [3, 2]


async def test_one_who_offers_another_protocol_and_closes_is_answered() -> None:
    offer = OFFER.replace(b"keep-alive", b"close")
    async with serving(Echo(), HeadLimits()) as port:
        answer = await ask(port, b"POST / HTTP/1.1\r\nhost: a\r\n" + offer + b"content-length: 5\r\n\r\nhe", b"llo")
    assert answer.count(b"3 5;") == 1


async def test_offers_by_the_thousand_in_one_piece_are_answered() -> None:
    many = 3000
    async with serving(Echo(), HeadLimits()) as port:
        answer = await ask(port, b"GET / HTTP/1.1\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n" * many + HEAD + CLOSE)
    assert answer.count(b"HTTP/1.1 200") == many + 1


async def test_requests_of_one_connection_each_have_the_whole_limit() -> None:
    long = HEAD + b"x: " + b"a" * 900 + b"\r\n"
    async with serving(Echo(), SMALL) as port:
        answer = await ask(port, (long + b"\r\n") * 5 + long + CLOSE)
    assert answer.count(b"HTTP/1.1 200") == 6


async def test_a_head_that_does_not_come_to_its_end_is_given_up() -> None:
    async with serving(Echo(), HeadLimits(patience_s=0.1)) as port:
        assert await ask(port) == b""
        assert await ask(port, HEAD) == b""
        assert (await ask(port, HEAD + b"\r\n" + HEAD)).count(b"HTTP/1.1 200") == 1


async def test_an_answer_is_not_cut_because_the_next_request_comes_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    app, looked = Echo(), asyncio.Event()
    give_up = Protocol._give_up

    def watched(connection: Protocol) -> None:
        give_up(connection)
        looked.set()

    monkeypatch.setattr(Protocol, "_give_up", watched)
    async with serving(app, HeadLimits(patience_s=0.1)) as port, connected(port) as (reader, writer):
        writer.write(b"GET /slow HTTP/1.1\r\nhost: a\r\n\r\n" + b"GET / HTTP/1.1\r\n")
        await reader.readuntil(b"begun")
        await looked.wait()
        app.may_end.set()
        assert b"1 0;" in await reader.read()


async def test_nothing_is_written_into_an_answer_that_has_begun() -> None:
    async with serving(Echo(), SMALL) as port, connected(port) as (reader, writer):
        writer.write(b"GET /slow HTTP/1.1\r\nhost: a\r\n\r\n")
        await reader.readuntil(b"begun")
        writer.write(b"\x00 no HTTP\r\n\r\n")
        assert b"HTTP/1.1" not in await reader.read()
