"""The JSON body of a request, bounded and checked."""

from __future__ import annotations

from typing import cast

import msgspec
from starlette.requests import ClientDisconnect, Request

from actors.errors import BodyTooLarge, ClientGone, InvalidRequest
from routes.schema.fields import Body

DEEPEST = 512
"""Levels of nesting that a body may have; readers and templates follow it by recursion."""

_decoder = msgspec.json.Decoder()


async def read_json(request: Request, limit: int) -> Body:
    """Read the whole body and parse it as one JSON object.

    Bytes are counted as they arrive, so a length that is missing or wrong does not help to pass the limit.

    Raises:
        BodyTooLarge: it is longer than `limit` bytes.
        InvalidRequest: it is no JSON, not UTF-8, nested too deep, holds half a surrogate pair, or is no object.
        ClientGone: the client left before its end.
    """
    return parse_json(await read_bytes(request, limit))


def parse_json(raw: bytes | bytearray) -> Body:
    """Parse one JSON object. Raises InvalidRequest."""
    try:
        document = _decoder.decode(raw)
    except (ValueError, RecursionError):
        raise InvalidRequest("invalid JSON body") from None
    if not isinstance(document, dict):
        raise InvalidRequest("the body must be a JSON object")
    # Hardly any body has that many brackets at all, and counting them costs nothing beside parsing.
    if raw.count(b"{") + raw.count(b"[") > DEEPEST and _deeper(document, DEEPEST):
        raise InvalidRequest(f"the body must not be nested deeper than {DEEPEST} levels")
    return document


def _deeper(document: object, limit: int) -> bool:
    """Whether something lies deeper than `limit` levels. Level by level, since how deep it goes is the question."""
    level: list[object] = [document]
    for _ in range(limit):
        level = [
            child
            for item in level
            for child in (item.values() if isinstance(item, dict) else cast("list[object]", item))
            if isinstance(child, dict | list)
        ]
        if not level:
            return False
    return True


async def read_bytes(request: Request, limit: int) -> bytearray:
    """Read the whole body, whatever it is. Raises BodyTooLarge and ClientGone, as `read_json`.

    A body somewhat over the limit is read to its end and thrown away, at most the limit once more: a client reads
    the refusal only after it has sent everything.
    """
    if _hopeless(request, limit):
        raise _too_large(limit)
    body, size = bytearray(), 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size <= limit:
                body += chunk
            elif size > 2 * limit:
                break
            else:
                body.clear()
    except ClientDisconnect:
        raise ClientGone("the client left while sending its request") from None
    if size > limit:
        raise _too_large(limit)
    return body


def _hopeless(request: Request, limit: int) -> bool:
    """Whether not a byte needs to be read: the announced length is far too long, or the client waits to be asked."""
    announced = request.headers.get("content-length", "")
    if not announced.isascii() or not announced.isdigit():
        return False
    length = int(announced[:20])
    return length > 2 * limit or (length > limit and "expect" in request.headers)


def _too_large(limit: int) -> BodyTooLarge:
    return BodyTooLarge(f"the body is longer than {limit} bytes")
