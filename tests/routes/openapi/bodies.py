"""Every body that is described, with its reader and an example that says every field once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel

from routes.openapi.audio import AudioBody
from routes.openapi.audio_sessions import AudioSessionBody
from routes.openapi.generation import ChatBody, TextBody
from routes.openapi.messages import MessagesBody
from routes.openapi.others import EmbeddingsBody
from routes.openapi.responses import ResponsesBody
from routes.schema import fields
from routes.schema.audio import read_audio_fields
from routes.schema.chat import read_chat_completion, template_variables
from routes.schema.completions import read_text_completion
from routes.schema.embeddings import read_embedding_request
from routes.schema.message_request import read_message_request
from routes.schema.response_items import conversation
from routes.schema.response_tools import read_response_tools
from routes.schema.responses import read_response_request
from routes.upload import _from_json

Json = Any
Read = Callable[[Mapping[str, object]], object]


def read_responses(body: Mapping[str, object]) -> None:
    """All that POST /v1/responses does with a body before it asks anybody."""
    asked = read_response_request(body, {})
    read_response_tools(body, ())
    conversation(asked.input, asked.instructions, "m")
    template_variables(body, asked.effort)


def read_clip(body: Mapping[str, object]) -> None:
    _from_json(body)
    read_audio_fields(body)


def read_session(body: Mapping[str, object]) -> None:
    read_audio_fields(body, "transcribe", ("json", "verbose_json"))
    fields.boolean(body, "partials")


READERS: dict[type[BaseModel], Read] = {
    ChatBody: lambda body: read_chat_completion(body, {}, "m"),
    TextBody: lambda body: read_text_completion(body, {}),
    MessagesBody: lambda body: read_message_request(body, {}, "m", "preserve_thinking"),
    ResponsesBody: read_responses,
    EmbeddingsBody: read_embedding_request,
    AudioBody: read_clip,
    AudioSessionBody: read_session,
}

SCHEMA: Json = {"type": "object", "properties": {"a": {"type": "string"}}}
SAMPLING: Json = {
    "temperature": 0.5,
    "top_p": 0.9,
    "top_k": 5,
    "min_p": 0.1,
    "seed": 7,
    "xtc_probability": 0.5,
    "xtc_threshold": 0.1,
    "repetition_penalty": 1.1,
    "repetition_context_size": 20,
    "presence_penalty": 0.5,
    "presence_context_size": 20,
    "frequency_penalty": 0.5,
    "frequency_context_size": 20,
    "hlg": {"enabled": True, "width": 4, "shoulder": 4, "toe": 4, "pivot_offset": 4},
    "session_id": "s",
    "prompt_cache_key": "k",
    "cache_salt": "salt",
    "adapter": "none",
    "model": "any",
    "stream": True,
}
GUIDED: Json = {
    "structured_outputs": SCHEMA,
    "guided_grammar": 'root ::= "x"',
    "guided_regex": "x*",
    "guided_choice": ["a", "b"],
}
NAMED: Json = {"name": "n", "schema": SCHEMA, "strict": True, "any_whitespace": False}
GENERATION: Json = {
    **SAMPLING,
    **GUIDED,
    "logit_bias": {"5": 1.5},
    "max_tokens": 5,
    "max_completion_tokens": 5,
    "n": 2,
    "stop": ["a", "b"],
    "logprobs": True,
    "top_logprobs": 3,
    "response_format": {"type": "json_schema", "json_schema": NAMED},
}
FUNCTION: Json = {"name": "f", "description": "Does it.", "parameters": SCHEMA}
SPEECH: Json = {
    "model": "any",
    "language": "en",
    "prompt": "Once",
    "vocabulary": ["Troupe"],
    "response_format": "verbose_json",
    "temperature": 0,
    "timestamp_granularities": ["word"],
    "beam_size": 2,
    "condition_on_previous_text": True,
    "without_timestamps": False,
    "no_speech_threshold": 0.5,
    "logprob_threshold": -1,
    "compression_ratio_threshold": 2.4,
    "vad": True,
    "vad_threshold": 0.5,
    "vad_min_speech_ms": 250,
    "vad_trim": True,
    "faithful": False,
    "audio_ctx": 1500,
}
CALL: Json = {"id": "c1", "function": {"name": "f", "arguments": '{"a": "b"}'}}
EXAMPLES: dict[type[BaseModel], Json] = {
    ChatBody: {
        **GENERATION,
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "hi"}], "name": "me"},
            {"role": "assistant", "content": None, "tool_calls": [CALL], "reasoning": "r", "reasoning_content": "r"},
            {"role": "tool", "tool_call_id": "c1", "content": "done"},
        ],
        "tools": [{"type": "function", "function": FUNCTION}],
        "tool_choice": {"type": "function", "function": {"name": "f"}},
        "parallel_tool_calls": True,
        "reasoning_effort": "low",
        "chat_template_kwargs": {"a": 1},
    },
    TextBody: {**GENERATION, "prompt": "Once"},
    MessagesBody: {
        **SAMPLING,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        "system": [{"type": "text", "text": "Be kind."}],
        "max_tokens": 5,
        "stop_sequences": ["a"],
        "tools": [{"name": "f", "description": "Does it.", "input_schema": SCHEMA}],
        "tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": True},
        "thinking": {"type": "enabled", "budget_tokens": 100, "display": "omitted"},
        "output_config": {"effort": "low", "format": {"type": "json_schema", **NAMED}},
        "output_format": {"type": "json_schema", **NAMED},
        "metadata": {"user_id": "u"},
        "chat_template_kwargs": {"a": 1},
        "logit_bias": None,
    },
    ResponsesBody: {
        **SAMPLING,
        **GUIDED,
        "logit_bias": {"5": 1.5},
        "input": [{"type": "message", "role": "user", "content": "hi"}],
        "instructions": "Be kind.",
        "previous_response_id": "resp_1",
        "store": False,
        "max_output_tokens": 5,
        "max_tokens": 5,
        "truncation": "auto",
        "tools": [
            {"type": "function", **FUNCTION},
            {"type": "custom", "name": "g", "format": {"type": "grammar", "syntax": "lark", "definition": "x"}},
        ],
        "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"name": "f"}], "name": "f"},
        "parallel_tool_calls": True,
        "reasoning": {"effort": "low", "summary": "auto"},
        "text": {"format": {"type": "json_schema", **NAMED}},
        "metadata": {"a": "b"},
        "user": "u",
        "include": ["reasoning.encrypted_content"],
        "background": False,
        "conversation": None,
        "prompt": None,
        "top_logprobs": 0,
        "stop": "a",
        "chat_template_kwargs": {"a": 1},
    },
    EmbeddingsBody: {
        "model": "any",
        "input": ["a", "b"],
        "encoding_format": "base64",
        "dimensions": 5,
        "instruction": "Find it.",
        "truncate": "end",
    },
    AudioBody: {**SPEECH, "stream": False, "file": "UklG", "audio": "UklG", "input_audio": {"data": "UklG"}},
    AudioSessionBody: {**SPEECH, "partials": True},
}
