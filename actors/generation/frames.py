"""The wire of the mailbox: length-prefixed msgpack of the typed records in messages.py.

A frame is a 4-byte big-endian length and that many bytes. Towards the ingress every frame is a `StepEvents`;
towards the scheduler the first is `Hello`, every later one a `Cancel`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from actors.generation.messages import Cancel, Hello, StepEvents

MAX_FRAME = 64 * 2**20
"""Longest frame believed; a longer announcement means that the peer does not speak this protocol."""

_LENGTH = struct.Struct(">I")
_encoder = msgspec.msgpack.Encoder()
M = TypeVar("M", StepEvents, Hello, Cancel)

_decoders: dict[type, msgspec.msgpack.Decoder[Any]] = {
    kind: msgspec.msgpack.Decoder(kind) for kind in (StepEvents, Hello, Cancel)
}


class ProtocolError(Exception):
    """The peer sent what no Troupe actor sends."""


def encode(message: StepEvents | Hello | Cancel) -> bytes:
    body = _encoder.encode(message)
    return _LENGTH.pack(len(body)) + body


def decode(kind: type[M], body: bytes) -> M:
    """Raises `ProtocolError` when the bytes are not a `kind`."""
    try:
        return _decoders[kind].decode(body)
    except msgspec.MsgspecError as error:
        raise ProtocolError(str(error)) from None


class FrameReader:
    """Cuts a byte stream back into frames, however it was chopped up on the way."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Bodies of the frames that are complete now. Raises `ProtocolError` for an absurd length."""
        self._buffer += data
        start = 0
        while len(self._buffer) - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer, start)
            if length > MAX_FRAME:
                raise ProtocolError(f"a frame of {length} bytes was announced")
            end = start + _LENGTH.size + length
            if end > len(self._buffer):
                break
            yield bytes(self._buffer[start + _LENGTH.size : end])
            start = end
        del self._buffer[:start]
