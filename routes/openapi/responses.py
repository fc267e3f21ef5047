"""The body of POST /v1/responses, and the queries for stored responses."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from routes.openapi.described import Described, Source, Tokens
from routes.openapi.generation import FreeFormat, Stop
from routes.openapi.messages import FormatOfSchema
from routes.openapi.sampling import Affinity, Biased, Sampling


class Item(Described):
    """An input item; its fields follow its type, which only a message may leave out."""

    type: str | None = Field(None, description="`message`, `function_call`, `function_call_output`, `reasoning` ...")


class ResponseTool(Described):
    """A tool; what is neither a function nor a custom tool is left out."""

    type: str
    name: Any = Field(
        None, description="A string, of functions and custom tools. This and the rest is not read of others."
    )
    description: Any = Field(None, description="A string.")
    parameters: Any = Field(None, description="A JSON schema, of functions.")
    format: Any = Field(None, description="An object, of custom tools.")


class ResponseChoice(Described):
    """Which tools may be called, or must be."""

    type: str = Field(description="`function`, `custom` or `allowed_tools`.")
    name: str | None = None
    mode: Literal["auto", "required"] | None = None
    tools: list[dict[str, object]] | None = None


class ResponseReasoning(Described):
    """How much to think."""

    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    summary: Literal["auto", "concise", "detailed", "none"] | None = None


class ResponseText(Described):
    """Form of the answer."""

    format: FreeFormat | FormatOfSchema | None = None


class ResponsesBody(Sampling, Biased, Affinity):
    """Something to answer, or to continue."""

    model: Any = Field(None, description="Whatever it says, the served model answers.")
    input: str | list[Item]
    instructions: str | None = Field(None, description="What the system says; if absent, as before.")
    previous_response_id: str | None = Field(None, description="The stored response to continue.")
    store: bool | None = Field(None, description="False does not keep the response.")
    stream: bool | None = Field(None, description="Answer as server-sent events.")
    max_output_tokens: Tokens | None = None
    max_tokens: Tokens | None = Field(None, description="Another name of `max_output_tokens`, which wins.")
    truncation: Literal["auto", "disabled"] | None = None
    tools: Annotated[list[ResponseTool], Field(max_length=1024)] | None = None
    tool_choice: Literal["none", "auto", "required"] | ResponseChoice | None = None
    parallel_tool_calls: bool | None = None
    reasoning: ResponseReasoning | None = None
    text: ResponseText | None = None
    metadata: dict[str, object] | None = None
    user: str | None = None
    include: list[object] | None = None
    background: Literal[False] | None = Field(None, description="Is not served.")
    conversation: None = Field(None, description="Is not served.")
    prompt: None = Field(None, description="Is not served.")
    top_logprobs: Literal[0] | None = Field(None, description="Is not served here.")
    stop: Stop | Annotated[list[Stop], Field(max_length=64)] | None = None
    chat_template_kwargs: dict[str, object] | None = Field(None, description="Variables of the chat template.")
    structured_outputs: dict[str, object] | None = None
    guided_grammar: Source | None = None
    guided_regex: Source | None = None
    guided_choice: list[str] | None = None


class ItemsQuery(Described):
    """A page of a response's input."""

    limit: Annotated[int, Field(ge=1, le=100)] = Field(20, description="Items at most.")
    order: Literal["asc", "desc"] = Field("desc", description="Oldest or newest first.")
    after: str | None = Field(None, description="The item before the first one wanted.")
