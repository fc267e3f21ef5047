"""The JSON body of a request, bounded and checked."""

from __future__ import annotations

import msgspec
from starlette.requests import ClientDisconnect, Request

from actors.errors import BodyTooLarge, ClientGone, InvalidRequest
from routes.schema.fields import Body

_decoder = msgspec.json.Decoder()


async def read_json(request: Request, limit: int) -> Body:
    """Read the whole body and parse it as one JSON object.

    Bytes are counted as they arrive, so a length that is missing or wrong does not help to pass the limit.

    Raises:
        BodyTooLarge: it is longer than `limit` bytes.
        InvalidRequest: it is no JSON, not UTF-8, nested too deep, holds half a surrogate pair, or is no object.
        ClientGone: the client left before its end.
    """
    return parse_json(await _read(request, limit))


def parse_json(raw: bytes | bytearray) -> Body:
    """Parse one JSON object. Raises InvalidRequest."""
    try:
        document = _decoder.decode(raw)
    except (ValueError, RecursionError):
        raise InvalidRequest("invalid JSON body") from None
    if not isinstance(document, dict):
        raise InvalidRequest("the body must be a JSON object")
    return document


async def _read(request: Request, limit: int) -> bytes | bytearray:
    announced = request.headers.get("content-length", "")
    if announced.isascii() and announced.isdigit() and len(announced) < 20 and int(announced) > limit:
        raise _too_large(limit)
    body = bytearray()
    try:
        async for chunk in request.stream():
            if len(body) + len(chunk) > limit:
                raise _too_large(limit)
            body += chunk
    except ClientDisconnect:
        raise ClientGone("the client left while sending its request") from None
    return body


def _too_large(limit: int) -> BodyTooLarge:
    return BodyTooLarge(f"the body is longer than {limit} bytes")
