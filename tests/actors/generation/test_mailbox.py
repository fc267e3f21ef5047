"""The scheduler's side of the mailbox, over real sockets."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.generation.frames import MAX_FRAME, FrameReader, ProtocolError, decode, encode
from actors.generation.mailbox import Mailbox
from actors.generation.messages import Cancel, Delta, Failure, Hello, StepEvents
from actors.ids import IngressId, RequestId

ME = IngressId("me")
EVENTS = StepEvents(
    7,
    (
        Delta(RequestId("a"), (1, 2), cached_tokens=3),
        Delta(RequestId("b"), finish="error", failure=Failure("QueueFull", "wäit\n")),
    ),
)


@given(st.lists(st.integers(1, 9), max_size=40))
def test_frames_survive_any_cut(cuts: list[int]) -> None:
    stream = encode(EVENTS) + encode(StepEvents(8, ())) + encode(EVENTS)
    reader, found, start = FrameReader(), [], 0
    for cut in [*cuts, len(stream)]:
        found += reader.feed(stream[start : start + cut])
        start += cut
    assert [decode(StepEvents, frame).step for frame in found] == [7, 8, 7]
    assert decode(StepEvents, found[0]) == EVENTS


def test_nonsense_is_a_protocol_error() -> None:
    with pytest.raises(ProtocolError):
        list(FrameReader().feed(struct.pack(">I", MAX_FRAME + 1)))
    with pytest.raises(ProtocolError):
        decode(Hello, b"\xc1")
    with pytest.raises(ProtocolError):
        decode(Hello, encode(Cancel(RequestId("a"), "x"))[4:])


@pytest.fixture
async def mailbox() -> AsyncIterator[Mailbox]:
    box = Mailbox(lambda cancel: cancelled.append(cancel), lambda ingress: gone.append(ingress))
    cancelled.clear()
    gone.clear()
    await box.open("127.0.0.1")
    async with asyncio.timeout(20):
        yield box
    box.close()


cancelled: list[Cancel] = []
gone: list[IngressId] = []


async def connect(mailbox: Mailbox, hello: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection(mailbox.host, mailbox.port)
    writer.write(hello)
    return reader, writer


async def frames(reader: asyncio.StreamReader, count: int) -> list[StepEvents]:
    found: list[StepEvents] = []
    while len(found) < count:
        (length,) = struct.unpack(">I", await reader.readexactly(4))
        found.append(decode(StepEvents, await reader.readexactly(length)))
    return found


async def test_who_does_not_know_the_secret_is_shown_out(mailbox: Mailbox) -> None:
    for hello in (encode(Hello(ME, "guess")), b"GET / HTTP/1.1\r\n\r\n", encode(Cancel(RequestId("a"), "x"))):
        reader, writer = await connect(mailbox, hello)
        assert await reader.read() == b""
        writer.close()
    assert mailbox.replicas == 0


async def test_a_slow_reader_gets_everything_in_order_and_holds_nobody_up(mailbox: Mailbox) -> None:
    reader, writer = await connect(mailbox, encode(Hello(ME, mailbox.secret)))
    assert (await frames(reader, 1))[0] == StepEvents(0, ())
    big = Delta(RequestId("a"), tuple(range(5000)))
    for step in range(400):
        mailbox.post(ME, StepEvents(step, (big,)))
    assert mailbox.backlog_bytes > 0, "the socket could not take all of it at once"
    assert [events.step for events in await frames(reader, 400)] == list(range(400))
    while mailbox.backlog_bytes:
        await asyncio.sleep(0.01)
    writer.close()


async def test_cancels_arrive_and_a_closed_socket_is_noticed(mailbox: Mailbox) -> None:
    reader, writer = await connect(
        mailbox, encode(Hello(ME, mailbox.secret)) + encode(Cancel(RequestId("early"), "disconnect"))
    )
    await frames(reader, 1)
    writer.write(encode(Cancel(RequestId("late"), "stop")))
    while len(cancelled) < 2:
        await asyncio.sleep(0.01)
    assert [cancel.request_id for cancel in cancelled] == ["early", "late"]
    writer.close()
    while not gone:
        await asyncio.sleep(0.01)
    assert gone == [ME]
    mailbox.post(ME, EVENTS)  # nobody's events are no error


async def test_two_replicas_get_their_own_events(mailbox: Mailbox) -> None:
    ends = [await connect(mailbox, encode(Hello(IngressId(name), mailbox.secret))) for name in ("one", "two")]
    for reader, _ in ends:
        await frames(reader, 1)
    mailbox.post(IngressId("two"), StepEvents(2, ()))
    mailbox.post(IngressId("one"), StepEvents(1, ()))
    assert [(await frames(reader, 1))[0].step for reader, _ in ends] == [1, 2]
    for _, writer in ends:
        writer.close()
