"""The body of POST /v1/chat/completions. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from actors.errors import InvalidRequest
from routes.schema import fields
from routes.schema.fields import Body
from routes.schema.generation import GenerationFields, read_generation
from routes.schema.messages import Message, read_messages
from routes.schema.tools import Toolbox, read_tools

_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")
_RENDERING = frozenset(
    {
        "add_generation_prompt",
        "chat_template",
        "continue_final_message",
        "conversation",
        "conversations",
        "documents",
        "max_length",
        "messages",
        "padding",
        "return_assistant_tokens_mask",
        "return_dict",
        "return_tensors",
        "sanitize_control_tokens",
        "self",
        "tokenize",
        "tokenizer_kwargs",
        "tools",
        "truncation",
    }
)
"""Arguments of rendering itself. A request may set a template's variables, not the template or its input."""


@dataclass(frozen=True, slots=True)
class ChatCompletion:
    """A conversation to answer."""

    messages: tuple[Message, ...]
    """At least one, normalized for chat templates."""
    template_variables: Mapping[str, object]
    """What the chat template gets beside the messages."""
    reasoning_effort: str | None
    """How much to think; `template_variables` already says whether."""
    toolbox: Toolbox
    """Functions the model may call."""
    generation: GenerationFields
    """How to generate."""
    thinking_tokens: int | None = None
    """Tokens of thinking at most; None leaves it to the model."""


def read_chat_completion(body: Body, headers: Mapping[str, str], model_id: str) -> ChatCompletion:
    """Check and read the whole body. `model_id` is for messages about what the model cannot take.

    Raises:
        InvalidRequest: the first field that is wrong.
    """
    messages = read_messages(body, model_id)
    effort = fields.choice(body, "reasoning_effort", _EFFORTS)
    variables = template_variables(body, effort)
    return ChatCompletion(messages, variables, effort, read_tools(body), read_generation(body, headers))


def template_variables(body: Body, effort: str | None) -> Mapping[str, object]:
    given = fields.mapping(body, "chat_template_kwargs") or {}
    for name in given:
        if name in _RENDERING:
            raise InvalidRequest(f"chat_template_kwargs.{name} cannot be set by a request")
    variables = dict(given)
    if variables.get("enable_thinking") is None:
        variables.pop("enable_thinking", None)
        if effort is not None:
            variables["enable_thinking"] = effort != "none"
    return variables
