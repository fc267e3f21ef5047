"""Token ids as they travel."""

from __future__ import annotations

import array
import sys


def pack(tokens: list[int]) -> bytes:
    """Token ids as little-endian uint32 bytes."""
    words = array.array("I", tokens)
    if sys.byteorder == "big":
        words.byteswap()
    return words.tobytes()


def unpack(data: bytes) -> list[int]:
    """The reverse of `pack`."""
    words = array.array("I")
    words.frombytes(data)
    if sys.byteorder == "big":
        words.byteswap()
    return words.tolist()
