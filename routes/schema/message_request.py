"""The bodies of POST /v1/messages and /v1/messages/count_tokens. Pure.

Fields of betas and `cache_control` are not looked at: prefixes are cached anyway, and a local model has no use for the
rest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from actors.errors import InvalidRequest
from actors.generation.grammar.constraint import Constraint
from routes.affinity import LONGEST, partition_from, session_of
from routes.schema import fields
from routes.schema.chat import ChatCompletion, template_variables
from routes.schema.constraint import read_format
from routes.schema.fields import Body
from routes.schema.generation import MOST_TOKENS, GenerationFields, read_stops
from routes.schema.message_blocks import History
from routes.schema.message_tools import read_message_tools
from routes.schema.sampling import read_sampling
from routes.schema.unserved import refuse_unserved

_THINKING = ("enabled", "disabled", "adaptive", "between_tools")
_DISPLAYS = ("summarized", "omitted")
_EFFORTS = ("low", "medium", "high", "xhigh", "max")
_MOST_STOPS = 64
_PRESERVE = "preserve_thinking"


@dataclass(frozen=True, slots=True)
class MessageRequest:
    """A conversation to answer in the Messages protocol."""

    chat: ChatCompletion
    """As all protocols have it."""
    shows_thinking: bool
    """Whether the text of thinking is sent, or only that there was some."""


def read_message_request(body: Body, headers: Mapping[str, str], model_id: str, template: str) -> MessageRequest:
    """Check and read the whole body.

    Args:
        body: of the request.
        headers: of the request.
        model_id: for words about what the model cannot take.
        template: text of the chat template; one that knows `preserve_thinking` gets the thinking of earlier turns.

    Raises:
        InvalidRequest: the first field that is wrong.
    """
    thinking = _Thinking.read(body)
    variables = template_variables(body, thinking.switch)
    keeps = _PRESERVE in template and variables.get(_PRESERVE) is not False
    chat = ChatCompletion(
        messages=History(model_id, keeps).read(body),
        template_variables=variables,
        reasoning_effort=thinking.effort,
        toolbox=read_message_tools(body),
        generation=_generation(body, headers),
        thinking_tokens=thinking.budget,
    )
    return MessageRequest(chat, thinking.shown)


@dataclass(frozen=True, slots=True)
class _Thinking:
    """What a request says of thinking."""

    switch: str | None
    """A word of chat completions for how much: `none` switches it off, None leaves it to the model's template."""
    budget: int | None
    """Tokens at most."""
    shown: bool
    """Whether its text is sent."""
    effort: str | None
    """In the words of chat completions."""

    @classmethod
    def read(cls, body: Body) -> _Thinking:
        effort = fields.choice(_under(body, "output_config"), "output_config.effort", _EFFORTS)
        effort = "xhigh" if effort == "max" else effort
        if fields.mapping(body, "thinking") is None:
            return cls(None, None, True, effort)
        given = _under(body, "thinking")
        kind = fields.choice(given, "thinking.type", _THINKING)
        if kind is None:
            raise InvalidRequest("thinking.type must be one of " + ", ".join(f"'{word}'" for word in _THINKING))
        budget = fields.integer(given, "thinking.budget_tokens", 1, MOST_TOKENS)
        if kind == "enabled" and budget is None:
            raise InvalidRequest("thinking.budget_tokens is required where thinking is enabled")
        shown = fields.choice(given, "thinking.display", _DISPLAYS) != "omitted"
        switch = "none" if kind == "disabled" else effort or "medium"
        return cls(switch, budget if kind == "enabled" else None, shown, effort)


def _generation(body: Body, headers: Mapping[str, str]) -> GenerationFields:
    refuse_unserved(body)
    if body.get("logit_bias") is not None:
        raise InvalidRequest("logit_bias does not exist in this protocol; /v1/chat/completions has it")
    return GenerationFields(
        stream=fields.boolean(body, "stream") or False,
        max_tokens=fields.integer(body, "max_tokens", 1, MOST_TOKENS),
        sampling=read_sampling(body),
        choices=1,
        top_logprobs=None,
        constraint=_format(body),
        stops=read_stops("stop_sequences", fields.array(body, "stop_sequences"), _MOST_STOPS),
        session=_session(body, headers),
        partition=partition_from(body),
    )


def _format(body: Body) -> Constraint | None:
    """`output_config.format`, or `output_format`, which was its name in the beta."""
    for where, given in (
        ("output_config.format", _under(body, "output_config")),
        ("output_format", body),
    ):
        wanted = fields.mapping(given, where)
        if wanted is not None:
            return read_format(where, wanted, where, wanted)
    return None


def _session(body: Body, headers: Mapping[str, str]) -> str | None:
    """The session that the request names, or else its user: clients put a session's id in there."""
    user = fields.string(_under(body, "metadata"), "metadata.user_id")
    named = session_of(body, headers)
    if named is not None or not user:
        return named
    return user if len(user) <= LONGEST else hashlib.sha256(user.encode("utf-8", "replace")).hexdigest()


def _under(body: Body, name: str) -> Body:
    """An object of the body, with full names for its fields; empty if it is not there."""
    return {f"{name}.{key}": value for key, value in (fields.mapping(body, name) or {}).items()}
