"""The protocol of the response store, whole.

    keep(Keep)       -> Kept                     store a complete response
    thread(id)       -> tuple[Turn, ...] | None  the conversation that ends with a response
    find(id)         -> bytes | None             the response itself
    holding(items)   -> tuple[bytes, ...]        the responses that output items are in
    forget(id)       -> bool                     whether there was one
    statistics()     -> StoreStatistics

JSON travels as UTF-8 bytes: the store does not look into it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from actors.ids import RequestId


@dataclass(frozen=True, slots=True)
class Turn:
    """One request and its response."""

    input: bytes
    """JSON array of the request's own input items."""
    response: bytes
    """JSON of the response object, with its output items and the instructions it was made with."""


@dataclass(frozen=True, slots=True)
class Keep:
    """A response that may be resumed or retrieved."""

    response_id: RequestId
    """Its name, unique."""
    previous: RequestId | None
    """Response that it continues; None for the beginning of a conversation."""
    turn: Turn
    """What to keep."""
    items: tuple[str, ...] = ()
    """Ids of its output items, by which later requests may refer to them."""


class Kept(Enum):
    """What became of it."""

    STORED = "stored"
    """It can be found for as long as it lives."""
    ORPHANED = "orphaned"
    """Not stored: the response it continues is not known any more."""
    TOO_LARGE = "too large"
    """Not stored: its conversation alone is larger than the store."""


@dataclass(frozen=True, slots=True)
class StoreStatistics:
    """State of the store."""

    entries: int
    """Responses that can be found."""
    size: int
    """Bytes held, turns that only serve as somebody's past included."""
    max_size: int
    """Budget."""
    ttl_s: float
    """How long a response lives, in seconds."""
    hits: int
    """Questions for a response that was there."""
    misses: int
    """Questions for one that was not."""
    evictions: int
    """Responses dropped for room."""
    expirations: int
    """Responses dropped for their age."""
    mailbox_depth: int
    """Messages being handled."""
