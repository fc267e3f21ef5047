"""The body of POST /v1/responses. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from actors.errors import InvalidRequest
from actors.generation.grammar.constraint import Constraint
from routes.schema import fields
from routes.schema.constraint import read_format
from routes.schema.fields import Body
from routes.schema.generation import GenerationFields, read_generation
from routes.schema.response_items import Item, read_items

_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_SUMMARIES = ("auto", "concise", "detailed", "none")
_TRUNCATIONS = ("auto", "disabled")
_MOST_TOKENS = 2**53
_OTHER_PROTOCOLS = ("n", "logprobs", "top_logprobs", "max_tokens", "max_completion_tokens", "response_format")
"""Fields that this protocol does not have, or has under another name."""
_STATEFUL = ("conversation", "prompt")
_LOGPROBS = "message.output_text.logprobs"


@dataclass(frozen=True, slots=True)
class ResponseRequest:
    """What is to be answered, as far as it does not depend on an earlier response."""

    input: tuple[Item, ...]
    """Items of this request alone."""
    instructions: str | None
    """What the system says; None carries those of the earlier response forward."""
    previous: str | None
    """Id of the response to continue."""
    store: bool
    """Whether the response may be continued or retrieved."""
    truncate: bool
    """Whether the beginning of a conversation that is too long may go."""
    effort: str | None
    """How much to think."""
    generation: GenerationFields
    """How to generate."""
    told: Mapping[str, object]
    """Fields that the response repeats."""


def read_response_request(body: Body, headers: Mapping[str, str]) -> ResponseRequest:
    """Check and read everything but the tools.

    Raises:
        InvalidRequest: the first field that is wrong, or asks for what this server does not have.
    """
    _refuse(body)
    reasoning = fields.mapping(body, "reasoning") or {}
    named = {f"reasoning.{key}": value for key, value in reasoning.items()}
    effort = fields.choice(named, "reasoning.effort", _EFFORTS)
    summary = fields.choice(named, "reasoning.summary", _SUMMARIES)
    instructions = fields.string(body, "instructions")
    previous = fields.string(body, "previous_response_id") or None
    store = fields.boolean(body, "store") is not False
    truncation = fields.choice(body, "truncation", _TRUNCATIONS) or "disabled"
    generation, text = _generation(body, headers)
    return ResponseRequest(
        input=read_items(body.get("input")),
        instructions=instructions,
        previous=previous,
        store=store,
        truncate=truncation == "auto",
        effort="xhigh" if effort == "max" else effort,
        generation=generation,
        told={
            "background": False,
            "max_output_tokens": generation.max_tokens,
            "metadata": fields.mapping(body, "metadata") or {},
            "previous_response_id": previous,
            "prompt_cache_key": fields.string(body, "prompt_cache_key"),
            "reasoning": {"effort": effort, "summary": summary},
            "store": store,
            "temperature": generation.sampling.temperature,
            "text": text,
            "top_p": generation.sampling.top_p,
            "truncation": truncation,
            "user": fields.string(body, "user"),
        },
    )


def _generation(body: Body, headers: Mapping[str, str]) -> tuple[GenerationFields, Mapping[str, object]]:
    """The fields that all protocols share, under this one's names, and the `text` field to repeat."""
    longest = fields.integer(body, "max_output_tokens", 1, _MOST_TOKENS)
    if longest is None:
        longest = fields.integer(body, "max_tokens", 1, _MOST_TOKENS)
    text = fields.mapping(body, "text") or {}
    shared = {key: value for key, value in body.items() if key not in _OTHER_PROTOCOLS}
    generation = read_generation({**shared, "max_completion_tokens": longest}, headers)
    form = fields.mapping({"text.format": text.get("format")}, "text.format")
    constraint: Constraint | None = None
    if form is not None:
        constraint = read_format("text.format", form, "text.format", form)
    if constraint is not None:
        generation = replace(generation, constraint=constraint)
    return generation, {**text, "format": form or {"type": "text"}}


def _refuse(body: Body) -> None:
    """What would change the answer and cannot be had is refused by name."""
    if fields.boolean(body, "background"):
        raise InvalidRequest("background is not supported by this server: leave it out, and read the response")
    for name in _STATEFUL:
        if body.get(name) is not None:
            raise InvalidRequest(f"{name} is not supported by this server")
    included = fields.array(body, "include") or ()
    if _LOGPROBS in included or fields.integer(body, "top_logprobs", 0, 20):
        raise InvalidRequest("log-probabilities are served by /v1/chat/completions, not by /v1/responses")
