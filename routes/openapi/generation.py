"""The bodies of POST /v1/chat/completions and /v1/completions."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from routes.openapi.described import Described, Name, Schema, Source, Stop, Tokens
from routes.openapi.sampling import Affinity, Biased, Sampling

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]


class FreeFormat(Described):
    """Text, or any JSON."""

    type: Literal["text", "json_object"]


class NamedSchema(Described):
    """A JSON schema that the answer follows."""

    name: str | None = None
    schema_: Schema = Field(alias="schema")
    strict: bool | None = Field(None, description="False allows properties that the schema does not name.")
    any_whitespace: bool | None = Field(None, description="False holds the answer to compact JSON.")


class SchemaFormat(Described):
    """JSON that follows a schema."""

    type: Literal["json_schema"]
    json_schema: NamedSchema


class Generation(Sampling, Biased, Affinity):
    """Fields that chat and text completions share."""

    model: Any = Field(None, description="Whatever it says, the served model answers.")
    stream: bool | None = Field(None, description="Answer as server-sent events.")
    max_tokens: Tokens | None = Field(None, description="Tokens to generate at most.")
    max_completion_tokens: Tokens | None = Field(None, description="Newer name of `max_tokens`, which it beats.")
    n: Annotated[int, Field(ge=1, le=8)] | None = Field(None, description="Answers wanted.")
    stop: Stop | Annotated[list[Stop], Field(max_length=64)] | None = Field(None, description="Ends the answer.")
    logprobs: bool | None = Field(None, description="Tell each token's log-probability.")
    top_logprobs: Annotated[int, Field(ge=-1, le=11)] | None = Field(
        None, description="Likeliest tokens to tell with each token; -1 says nothing."
    )
    response_format: FreeFormat | SchemaFormat | None = Field(None, description="Form of the answer.")
    structured_outputs: dict[str, object] | None = Field(
        None, description="A JSON schema, or one of `json`, `regex`, `choice`, `grammar` alone."
    )
    guided_grammar: Source | None = Field(None, description="EBNF that the answer follows.")
    guided_regex: Source | None = Field(None, description="Regular expression that the answer matches.")
    guided_choice: list[str] | None = Field(None, description="Texts of which the answer is one.")


class ContentPart(Described):
    """A part of a message."""

    type: str = Field(description="`text`; other kinds are refused unless the model takes them.")
    text: str | None = None


class CalledFunction(Described):
    """What was called."""

    name: Name
    arguments: str | dict[str, object] | None = Field(None, description="A JSON object, or its text.")


class ToolCall(Described):
    """A call in an earlier answer."""

    id: str | None = None
    function: CalledFunction


class ChatMessage(Described):
    """One message."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[ContentPart] | None = Field(None, description="Only an assistant's may be absent.")
    name: str | None = None
    tool_call_id: str | None = None
    tool_calls: list[ToolCall] | None = Field(None, description="Of an assistant.")
    reasoning: Any = Field(None, description="What an assistant thought, as text; of others it is not looked at.")
    reasoning_content: Any = Field(None, description="Another name of `reasoning`, which it beats.")


class Function(Described):
    """A function that may be called."""

    name: Name
    description: str | None = None
    parameters: Schema | None = None


class Tool(Described):
    """A tool."""

    type: Literal["function"]
    function: Function


class NamedFunction(Described):
    """A function by its name."""

    name: Name


class ToolChoice(Described):
    """The function that must be called."""

    type: Literal["function"]
    function: NamedFunction


class ChatBody(Generation):
    """A conversation to answer."""

    messages: list[ChatMessage] = Field(min_length=1)
    tools: Annotated[list[Tool], Field(max_length=1024)] | None = None
    tool_choice: Literal["none", "auto", "required"] | ToolChoice | None = None
    parallel_tool_calls: bool | None = Field(None, description="False allows one call an answer.")
    reasoning_effort: Effort | None = Field(None, description="How much to think; `none` does not, where it can be.")
    chat_template_kwargs: dict[str, object] | None = Field(None, description="Variables of the chat template.")


class TextBody(Generation):
    """A text to continue."""

    prompt: Name
