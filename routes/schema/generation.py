"""The fields that chat and text completions share, as one record. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from actors.errors import InvalidRequest
from actors.generation.grammar.constraint import Constraint
from routes.affinity import partition_from, session_of
from routes.schema import fields
from routes.schema.constraint import read_constraint
from routes.schema.fields import Body
from routes.schema.sampling import SamplingFields, read_sampling, read_top_logprobs
from routes.schema.unserved import refuse_unserved

MOST_TOKENS = 2**53
_MOST_STOPS = 64
"""OpenAI's own limit is 4, but tools that complete code send a dozen or more."""
_LONGEST_STOP = 1024
_MOST_CHOICES = 8


@dataclass(frozen=True, slots=True)
class GenerationFields:
    """How to generate, as far as the request says. None means that it does not say."""

    stream: bool
    """Answer as server-sent events."""
    max_tokens: int | None
    """Tokens to generate at most."""
    sampling: SamplingFields
    """How to pick tokens."""
    choices: int
    """Answers wanted, 1 to 8."""
    top_logprobs: int | None
    """Likeliest tokens to report with each token; 0 reports only its own log-probability, None nothing."""
    constraint: Constraint | None
    """What the answer must look like."""
    stops: tuple[str, ...]
    """Text that ends the answer."""
    session: str | None
    """Session affinity."""
    partition: str = ""
    """Whom its prefixes are shared with: requests of the same `cache_salt`."""


def read_generation(body: Body, headers: Mapping[str, str]) -> GenerationFields:
    """Check and read the shared fields.

    Raises:
        InvalidRequest: the first one that is wrong, or asks for what this server does not have.
    """
    refuse_unserved(body)
    longest = fields.integer(body, "max_completion_tokens", 1, MOST_TOKENS)
    older = fields.integer(body, "max_tokens", 1, MOST_TOKENS)
    return GenerationFields(
        stream=fields.boolean(body, "stream") or False,
        max_tokens=older if longest is None else longest,
        sampling=read_sampling(body),
        choices=fields.integer(body, "n", 1, _MOST_CHOICES) or 1,
        top_logprobs=read_top_logprobs(body),
        constraint=read_constraint(body),
        stops=read_stops("stop", body.get("stop"), _MOST_STOPS),
        session=session_of(body, headers),
        partition=partition_from(body),
    )


def read_stops(name: str, value: object, most: int) -> tuple[str, ...]:
    """Stop strings: one, or a list of them.

    Raises:
        InvalidRequest: the field, of that name, has more than `most`, or what is none.
    """
    if value is None:
        return ()
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list):
        raise InvalidRequest(f"{name} must be a string or an array of strings")
    if len(listed) > most:
        raise InvalidRequest(f"{name} must have at most {most} strings")
    stops = tuple(stop for stop in listed if isinstance(stop, str))
    if len(stops) != len(listed):
        raise InvalidRequest(f"{name} must be a string or an array of strings")
    if not all(stops):
        raise InvalidRequest(f"{name} must not be an empty string")
    if any(len(stop) > _LONGEST_STOP for stop in stops):
        raise InvalidRequest(f"{name} must be at most {_LONGEST_STOP} characters a string")
    return stops
