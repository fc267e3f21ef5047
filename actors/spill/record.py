"""What a file of the SSD tier holds, and how it is named. Pure.

A prefix is cut into segments: all layers whose cache is one row of keys and values a token, for some consecutive
tokens. What cannot be cut (states, windows) is a record of its own, good at one exact length. Records hang on each
other by a hash over every token before them, so equal histories share their files and a turn adds only its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

TOKEN = 4
"""Bytes of a token id."""

Kind = Literal["segment", "state", "note"]
"""`note` is no part of a prefix but a small text under a key of its own; see actors/generation/checkpoints.py."""


@dataclass(frozen=True, slots=True)
class Record:
    """One durable file, as the index knows it."""

    name: str
    """Name of the file, made from its content's place: see `record_name`."""
    model: str
    """Whose arrays these are: weights, types, kinds of caches and library versions, as 64 hex digits."""
    kind: Kind
    """What it holds."""
    start: int
    """Tokens before it."""
    stop: int
    """Tokens up to its end; equals `start` in a state."""
    before: bytes
    """Hash of the tokens before `start`, see `hashes`."""
    after: bytes
    """Hash of the tokens before `stop`."""
    parent: str | None
    """The segment that holds token `start - 1`; None at the beginning."""
    tokens: bytes
    """The token ids of a segment, little-endian uint32; empty in others."""
    size: int
    """Bytes of the file."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """One array, bit for bit."""

    name: str
    """Unique within its record."""
    dtype: str
    """As MLX calls it; `bfloat16` travels as uint16."""
    data: np.ndarray
    """C-contiguous."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A record that is to be written."""

    model: str
    """As in `Record`."""
    kind: Kind
    """As in `Record`."""
    start: int
    """As in `Record`."""
    stop: int
    """As in `Record`."""
    before: bytes
    """As in `Record`."""
    after: bytes
    """As in `Record`."""
    parent: str | None
    """As in `Record`."""
    tokens: bytes
    """As in `Record`."""
    tensors: tuple[Tensor, ...]
    """The arrays."""
    extra: str = ""
    """Text that belongs to them: the structure of states, or a note."""

    @property
    def name(self) -> str:
        return record_name(self.kind, self.start, self.after)

    @property
    def payload_bytes(self) -> int:
        """Bytes of the arrays."""
        return sum(tensor.data.nbytes for tensor in self.tensors)


def record_name(kind: Kind, start: int, after: bytes) -> str:
    """The one name for this piece of this history."""
    return hashlib.sha256(b"%s %d " % (kind.encode(), start) + after).hexdigest()[:40]


def seed(model: str, namespace: str) -> bytes:
    """Where the hashes of a namespace begin; no two namespaces ever share a record."""
    return hashlib.sha256(f"{model}\n{namespace}".encode()).digest()


def hashes(seed: bytes, tokens: bytes, positions: Iterable[int]) -> Iterator[bytes]:
    """Hash of the first `position` tokens, for each of the rising positions; computed as they are asked for."""
    hasher, done, view = hashlib.sha256(seed), 0, memoryview(tokens)
    for position in positions:
        hasher.update(view[done * TOKEN : position * TOKEN])
        done = position
        yield hasher.digest()


def common(left: bytes, right: bytes) -> int:
    """Tokens at the beginning of both."""
    size = min(len(left), len(right)) // TOKEN
    if left[: size * TOKEN] == right[: size * TOKEN]:
        return size
    a, b = (np.frombuffer(part, dtype="<u4", count=size) for part in (left, right))
    return int(np.argmax(a != b))
