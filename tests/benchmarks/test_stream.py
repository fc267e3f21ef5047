"""benchmarks/stream.py."""

from __future__ import annotations

import json

import pytest

from benchmarks.stream import dechunk, read_reply

PLAIN = b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
DONE = b"data: [DONE]\n\n"


def event(text: str, **more: object) -> bytes:
    return b"data: " + json.dumps({"choices": [{"delta": {"content": text}}], **more}).encode() + b"\n\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def test_each_piece_of_text_has_the_time_its_last_byte_came() -> None:
    whole = event("b")
    pieces = [(1.0, PLAIN), (2.0, event("a") + whole[:5]), (3.0, whole[5:]), (4.0, DONE)]
    reply = read_reply(0.5, 4.5, pieces)
    assert reply.whole
    assert reply.text == "ab"
    assert reply.times == (2.0, 3.0)
    assert reply.ttft_s == 1.5
    assert reply.gaps_s == [1.0]
    assert reply.ended_at == 4.5


def test_chunked_and_plain_bodies_read_the_same() -> None:
    plain = [(1.0, PLAIN), (2.0, event("a")), (3.0, event("b")), (4.0, DONE)]
    chunked = [(1.0, CHUNKED), (2.0, chunk(event("a"))), (3.0, chunk(event("b"))), (4.0, chunk(DONE) + chunk(b""))]
    assert read_reply(0.0, 5.0, chunked) == read_reply(0.0, 5.0, plain)


def test_an_event_may_be_split_over_chunks() -> None:
    whole = event("split")
    pieces = [(1.0, CHUNKED), (2.0, chunk(whole[:9])), (3.0, chunk(whole[9:])), (4.0, chunk(DONE))]
    reply = read_reply(0.0, 4.0, pieces)
    assert (reply.text, reply.times) == ("split", (3.0,))


def test_a_chunk_that_came_in_part_is_left_out() -> None:
    raw = chunk(b"whole") + b"5\r\npa"
    assert dechunk(raw, 0) == [(b"whole", 8)]


def test_empty_text_is_no_piece_and_comments_are_skipped() -> None:
    pieces = [(1.0, PLAIN), (2.0, b": keepalive\n\n" + event("")), (3.0, event("a")), (4.0, DONE)]
    assert read_reply(0.0, 4.0, pieces).times == (3.0,)


def test_the_servers_own_count_of_tokens_is_used() -> None:
    usage = {"prompt_tokens": 7, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 3}}
    closing = b"data: " + json.dumps({"choices": [], "usage": usage}).encode() + b"\n\n"
    reply = read_reply(0.0, 3.0, [(1.0, PLAIN), (2.0, event("two words") + closing + DONE)])
    assert (reply.prompt_tokens, reply.completion_tokens, reply.cached_tokens) == (7, 5, 3)


def test_without_usage_pieces_are_counted() -> None:
    reply = read_reply(0.0, 3.0, [(1.0, PLAIN), (2.0, event("a") + event("b", usage=None) + DONE)])
    assert reply.completion_tokens == 2


@pytest.mark.parametrize(
    ("pieces", "broken", "status", "error"),
    [
        ([], "", 0, "no response"),
        ([], "Connection reset by peer", 0, "Connection reset by peer"),
        ([(1.0, b"HTTP/1.1 429 Too Many\r\n\r\nbusy")], "", 429, "busy"),
        ([(1.0, b"HTTP/1.1 503 Gone\r\n\r\n")], "", 503, "status 503"),
        ([(1.0, PLAIN + event("a"))], "", 200, "the stream ended early"),
        ([(1.0, PLAIN + event("a"))], "reset", 200, "reset"),
        ([(1.0, PLAIN + b'data: {"error": {"message": "no"}}\n\n')], "", 200, "{'message': 'no'}"),
    ],
)
def test_what_went_wrong_is_said(pieces: list[tuple[float, bytes]], broken: str, status: int, error: str) -> None:
    reply = read_reply(0.0, 2.0, pieces, broken)
    assert not reply.whole
    assert (reply.status, reply.error) == (status, error)
