"""The body of POST /v1/embeddings. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

from actors.errors import InvalidRequest
from routes.schema import fields
from routes.schema.fields import Body

MOST_INPUTS = 2048
"""Texts in one request."""

MOST_DIMENSIONS = 2**20
"""A bound for the reader alone; the model's own is far below."""

Cut = Literal["none", "end", "start"]
"""What is done to a text that is too long: it is refused, or its end or its start is cut off."""


@dataclass(frozen=True, slots=True)
class EmbeddingRequest:
    """Texts to embed."""

    texts: Sequence[str] | Sequence[Sequence[int]]
    """At least one, none of them empty: all as text, or all as token ids of 0 and more."""
    base64: bool
    """Whether the vectors are sent as base64 of little-endian float32 numbers, instead of as JSON numbers."""
    dimensions: int | None
    """Numbers wanted of each vector; None for all."""
    instruction: str | None
    """Task of a query, for models that read one; only with text."""
    cut: Cut
    """What becomes of texts that are too long."""


def read_embedding_request(body: Body) -> EmbeddingRequest:
    """Check and read the whole body. `model` and `user` may say anything.

    Raises:
        InvalidRequest: the first field that is wrong.
    """
    texts = _texts(body.get("input"))
    instruction = fields.string(body, "instruction") or None
    if instruction is not None and not isinstance(texts[0], str):
        raise InvalidRequest("instruction goes with text, not with token ids")
    return EmbeddingRequest(
        texts=texts,
        base64=fields.choice(body, "encoding_format", ("float", "base64")) == "base64",
        dimensions=fields.integer(body, "dimensions", 1, MOST_DIMENSIONS),
        instruction=instruction,
        cut=_cut(body),
    )


def _texts(value: object) -> Sequence[str] | Sequence[Sequence[int]]:
    if isinstance(value, str) and value:
        return [value]
    if not isinstance(value, str | list):
        raise InvalidRequest("input must be a string, an array of strings, or token ids")
    if not value:
        raise InvalidRequest("input must not be empty")
    values = cast("list[object]", value)
    if isinstance(values[0], str):
        return _strings(values)
    if isinstance(values[0], list):
        return [_tokens(tokens, f"input[{place}]") for place, tokens in enumerate(_bounded(values))]
    return [_tokens(values, "input")]


def _strings(values: list[object]) -> Sequence[str]:
    for place, text in enumerate(_bounded(values)):
        if not isinstance(text, str):
            raise InvalidRequest(f"input[{place}] must be a string, like the ones before it")
        if not text:
            raise InvalidRequest(f"input[{place}] must not be an empty string")
    return cast("list[str]", values)


def _tokens(values: object, where: str) -> Sequence[int]:
    if not isinstance(values, list):
        raise InvalidRequest(f"{where} must be an array of token ids, like the ones before it")
    if not values:
        raise InvalidRequest(f"{where} must not be empty")
    for place, token in enumerate(values):
        if isinstance(token, bool) or not isinstance(token, int) or token < 0:
            raise InvalidRequest(f"{where}[{place}] must be a token id, a whole number of 0 or more")
    return cast("list[int]", values)


def _bounded(values: list[object]) -> list[object]:
    if len(values) > MOST_INPUTS:
        raise InvalidRequest(f"input holds {len(values)} texts; at most {MOST_INPUTS} are embedded in one request")
    return values


def _cut(body: Body) -> Cut:
    value = body.get("truncate")
    if isinstance(value, bool):
        return "end" if value else "none"
    if value is None:
        return "none"
    word = value.lower() if isinstance(value, str) else value
    if word in ("none", "end", "start"):
        return cast("Cut", word)
    raise InvalidRequest("truncate must be a boolean, or one of 'none', 'end', 'start'")
