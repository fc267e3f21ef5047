"""The fields that chat and text completions share, as one record. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from actors.errors import InvalidRequest
from routes.affinity import session_of
from routes.schema import fields
from routes.schema.fields import Body
from routes.schema.unserved import refuse_unserved

_MOST_TOKENS = 2**53
_MOST_STOPS = 4
_LONGEST_STOP = 1024


@dataclass(frozen=True, slots=True)
class GenerationFields:
    """How to generate, as far as the request says. None means that it does not say."""

    stream: bool
    """Answer as server-sent events."""
    max_tokens: int | None
    """Tokens to generate at most."""
    temperature: float | None
    """0 is greedy."""
    top_p: float | None
    """0 and 1 are off."""
    top_k: int | None
    """0 is off."""
    min_p: float | None
    """0 is off."""
    seed: int | None
    """Any 64-bit integer, signed or not."""
    stops: tuple[str, ...]
    """Text that ends the answer."""
    session: str | None
    """Session affinity."""


def read_generation(body: Body, headers: Mapping[str, str]) -> GenerationFields:
    """Check and read the shared fields.

    Raises:
        InvalidRequest: the first one that is wrong, or asks for what this server does not have.
    """
    refuse_unserved(body)
    longest = fields.integer(body, "max_completion_tokens", 1, _MOST_TOKENS)
    older = fields.integer(body, "max_tokens", 1, _MOST_TOKENS)
    return GenerationFields(
        stream=fields.boolean(body, "stream") or False,
        max_tokens=older if longest is None else longest,
        temperature=fields.number(body, "temperature", 0, 5),
        top_p=fields.number(body, "top_p", 0, 1),
        top_k=fields.integer(body, "top_k", 0, 2**31 - 1),
        min_p=fields.number(body, "min_p", 0, 1),
        seed=fields.integer(body, "seed", -(2**63), 2**64 - 1),
        stops=_stops(body.get("stop")),
        session=session_of(body, headers),
    )


def _stops(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list):
        raise InvalidRequest("stop must be a string or an array of strings")
    if len(listed) > _MOST_STOPS:
        raise InvalidRequest(f"stop must have at most {_MOST_STOPS} strings")
    stops = tuple(stop for stop in listed if isinstance(stop, str))
    if len(stops) != len(listed):
        raise InvalidRequest("stop must be a string or an array of strings")
    if not all(stops):
        raise InvalidRequest("stop must not be an empty string")
    if any(len(stop) > _LONGEST_STOP for stop in stops):
        raise InvalidRequest(f"stop must be at most {_LONGEST_STOP} characters a string")
    return stops
