from collections.abc import Iterator

import pytest
from starlette.requests import Request
from starlette.types import Message

from actors.errors import BodyTooLarge, ClientGone, InvalidRequest
from routes.body import DEEPEST, parse_json, read_json


def request(*messages: Message, length: str | None = None, **more: str) -> Request:
    script: Iterator[Message] = iter(messages)

    async def receive() -> Message:
        return next(script)

    headers = [(name.encode(), value.encode()) for name, value in more.items()]
    if length is not None:
        headers.append((b"content-length", length.encode()))
    return Request({"type": "http", "method": "POST", "headers": headers}, receive)


def part(body: bytes, more: bool = False) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


async def test_a_body_in_pieces_is_read_whole() -> None:
    assert await read_json(request(part(b'{"a"', True), part(b": 1}")), 100) == {"a": 1}


async def test_the_limit_is_the_last_size_that_passes() -> None:
    assert await read_json(request(part(b'{"a":1}')), 7) == {"a": 1}
    with pytest.raises(BodyTooLarge, match="6 bytes"):
        await read_json(request(part(b'{"a":1}')), 6)


async def test_bytes_are_counted_whatever_the_length_says() -> None:
    with pytest.raises(BodyTooLarge):
        await read_json(request(part(b"{" + b" " * 50, True), part(b" " * 50 + b"}"), length="2"), 60)


async def test_a_body_over_the_limit_is_read_to_its_end_so_that_the_refusal_is_read() -> None:
    parts = [*[part(b" " * 20, True)] * 5, part(b"{}")]
    taken: list[Message] = []

    async def receive() -> Message:
        taken.append(parts[len(taken)])
        return taken[-1]

    with pytest.raises(BodyTooLarge):
        await read_json(Request({"type": "http", "method": "POST", "headers": []}, receive), 60)
    assert taken == parts


async def test_of_an_endless_body_no_more_than_twice_the_limit_is_read() -> None:
    with pytest.raises(BodyTooLarge):
        await read_json(request(*[part(b" " * 20, True)] * 7), 60)


@pytest.mark.parametrize(("length", "headers"), [("121", {}), ("9" * 30, {}), ("61", {"expect": "100-continue"})])
async def test_a_body_announced_far_too_long_or_not_yet_sent_is_refused_unread(
    length: str, headers: dict[str, str]
) -> None:
    with pytest.raises(BodyTooLarge):
        await read_json(request(length=length, **headers), 60)


async def test_a_client_that_leaves_while_sending_is_gone() -> None:
    with pytest.raises(ClientGone):
        await read_json(request(part(b"{", True), {"type": "http.disconnect"}), 60)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"{'a': 1}",
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": 1e999}',
        b'{"a": "\xff"}',
        b'{"a": "\xed\xa0\x80"}',
        b'{"a": "\\ud800 alone"}',
        b'{"a": "\\udc00 alone"}',
        b'{"a": ' + b"[" * 100_000,
        b"[" * 50_000 + b"]" * 50_000,
        b'{"a": 1} {"b": 2}',
        b"\xef\xbb\xbf{}",
        b'{"a": ' + b"9" * 5000 + b"}",
    ],
    ids=lambda raw: repr(raw[:24]),
)
def test_what_is_no_json_is_refused_in_the_protocols_words(raw: bytes) -> None:
    with pytest.raises(InvalidRequest, match=r"^invalid JSON body$"):
        parse_json(raw)


@pytest.mark.parametrize("raw", [b"[]", b"null", b'"text"', b"5", b"true"])
def test_json_that_is_no_object_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidRequest, match="must be a JSON object"):
        parse_json(raw)


def test_a_surrogate_pair_is_one_character() -> None:
    assert parse_json(b'{"a": "\\ud83d\\ude00"}') == {"a": "😀"}


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_a_body_may_be_nested_only_so_deep(opening: bytes, closing: bytes) -> None:
    def nested(levels: int) -> bytes:
        return b'{"a": ' + opening * (levels - 1) + b"1" + closing * (levels - 1) + b"}"

    assert parse_json(nested(DEEPEST))["a"]
    for levels in (DEEPEST + 1, DEEPEST + 100):
        with pytest.raises(InvalidRequest, match=rf"^the body must not be nested deeper than {DEEPEST} levels$"):
            parse_json(nested(levels))


def test_many_brackets_are_not_deep() -> None:
    assert len(str(parse_json(b'{"a": [' + b"[],{}," * 5000 + b'"[[["]}'))) > 20_000
