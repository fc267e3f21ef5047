"""The bodies of POST /v1/messages and /v1/messages/count_tokens."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from routes.openapi.described import Described, Schema, Stop, Tokens
from routes.openapi.generation import FreeFormat
from routes.openapi.sampling import Affinity, Sampling


class Block(Described):
    """A block of content; its fields follow its type."""

    type: str = Field(description="`text`, `thinking`, `tool_use`, `tool_result`, `document` and so on.")


class AnthropicMessage(Described):
    """One message."""

    role: Literal["user", "assistant", "system"]
    content: str | list[Block] | None = Field(None, description="Only a system message's may be absent.")


class AnthropicTool(Described):
    """A tool; without a name or a schema it is one of somebody else's server, and left out."""

    name: Annotated[str, Field(min_length=1)] | None = None
    description: str | None = None
    input_schema: Schema | None = None


class AnthropicChoice(Described):
    """Which tool must be called."""

    type: Literal["auto", "any", "tool", "none"]
    name: str | None = Field(None, description="With `tool`.")
    disable_parallel_tool_use: bool | None = None


class Thinking(Described):
    """Whether to think, and how long."""

    type: Literal["enabled", "disabled", "adaptive", "between_tools"]
    budget_tokens: Tokens | None = Field(None, description="Required where thinking is enabled.")
    display: Literal["summarized", "omitted"] | None = None


class FormatOfSchema(Described):
    """JSON that follows a schema."""

    type: Literal["json_schema"]
    schema_: Schema = Field(alias="schema")
    name: str | None = None
    strict: bool | None = None
    any_whitespace: bool | None = None


class OutputConfig(Described):
    """How the answer should be."""

    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    format: FreeFormat | FormatOfSchema | None = None


class Metadata(Described):
    """About the request."""

    user_id: str | None = Field(None, description="Stands for the session where none is named.")


class MessagesBody(Sampling, Affinity):
    """A conversation to answer."""

    model: Any = Field(None, description="Whatever it says, the served model answers.")
    messages: list[AnthropicMessage] = Field(min_length=1)
    system: str | list[Block] | None = None
    max_tokens: Tokens | None = None
    stream: bool | None = Field(None, description="Answer as server-sent events.")
    stop_sequences: Annotated[list[Stop], Field(max_length=64)] | None = None
    tools: Annotated[list[AnthropicTool], Field(max_length=1024)] | None = None
    tool_choice: AnthropicChoice | None = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None
    output_format: FreeFormat | FormatOfSchema | None = Field(None, description="Older name of `output_config.format`.")
    metadata: Metadata | None = None
    chat_template_kwargs: dict[str, object] | None = Field(None, description="Variables of the chat template.")
    logit_bias: None = Field(None, description="Does not exist in this protocol.")
