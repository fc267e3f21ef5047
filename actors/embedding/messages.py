"""The protocol of the embedder, whole.

    embed(Embed)               -> Embedded | Failure   the vectors of a request's texts, when they are all computed
    cancel(CancelEmbedding)    -> None                 nobody waits for them any more
    statistics()               -> EmbedderStatistics
    drain()                    -> None                 refuse new requests, return when the last one has ended

The ingress tokenizes; here are only token ids and numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

from actors.ids import RequestId
from actors.prompt_cache.messages import TokenBytes


@dataclass(frozen=True, slots=True)
class Embed:
    """One request."""

    request_id: RequestId
    """Its name, unique."""
    texts: tuple[TokenBytes, ...]
    """Token ids of each text, special ones included; at least one text, each of one token at least and of as many
    as the model reads at most."""
    dimensions: int
    """Numbers wanted of each vector: all of the model's, or the first ones, brought back to length 1."""


@dataclass(frozen=True, slots=True)
class Embedded:
    """The vectors of a request."""

    vectors: tuple[bytes, ...]
    """One a text, in the order of the request: `dimensions` little-endian float32 numbers, of length 1 together."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there are no vectors; rebuilt by `errors.by_name`."""

    error: str
    """Class name in actors/errors.py."""
    message: str
    """What the client is told."""


@dataclass(frozen=True, slots=True)
class CancelEmbedding:
    """Give a request up. Unknown and finished ones are ignored; may be repeated."""

    request_id: RequestId
    """Which."""


@dataclass(frozen=True, slots=True)
class EmbedderStatistics:
    """State of the embedder."""

    loaded: bool
    """Whether the weights are in memory."""
    weight_bytes: int
    """Bytes they take; 0 while they are not loaded."""
    open_requests: int
    """Requests that wait or are computed."""
    waiting_texts: int
    """Texts in line."""
    oldest_wait_s: float
    """How long the oldest open request has been here, in seconds."""
    finished_requests: int
    """Since start, answered with vectors."""
    cancelled_requests: int
    """Since start, given up because nobody waited any more."""
    failed_requests: int
    """Since start, ended in an error of the model's."""
    texts: int
    """Texts embedded since start."""
    text_tokens: int
    """Their tokens, without padding."""
    passes: int
    """Forward passes since start."""
    tokens_per_s: float
    """Tokens a second of the last passes, padding included."""
    lease_wait_s: float
    """Seconds the engine waited for the GPU lease."""
    lease_hold_s: float
    """Seconds it computed under it."""
