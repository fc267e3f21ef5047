"""JSON on the way out: one fast encoder that no text can break."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from starlette.responses import Response

_encode = msgspec.json.Encoder().encode


def json_bytes(value: object) -> bytes:
    """Encode plain data as compact UTF-8 JSON. Lone surrogates, which UTF-8 cannot carry, become `?`."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(_mended(value))


def json_response(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A response with a JSON body."""
    return Response(json_bytes(value), status, headers, media_type="application/json")


def _mended(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {_mended(key): _mended(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_mended(item) for item in value]
    return value
