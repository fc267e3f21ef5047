"""Request bodies in the shapes that agents and chat clients send, written anew from their documented fields.

Codex has a file of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Body = dict[str, Any]
READ: Body = {
    "type": "object",
    "properties": {"path": {"type": "string", "description": "Which file."}, "limit": {"type": "number"}},
    "required": ["path"],
    "additionalProperties": False,
    "$schema": "http://json-schema.org/draft-07/schema#",
}
SESSION = "3f0c8f2e-5a0b-4c55-9d0f-0b1c2d3e4f50"
ASKED = "Read a.txt."


@dataclass(frozen=True)
class Agent:
    """A client that reads a file with a tool."""

    label: str
    """Names it in the tests."""
    path: str
    """Where it posts to, with its query."""
    first: Body
    """Its first turn, which streams."""
    later: Callable[[Any], Body]
    """Its next turn, from what came back: a message of chat, blocks of Messages, or items of Responses."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Beside the usual ones."""
    keeps_thinking: bool = False
    """Whether a chat's template sees the thinking again; what other protocols hand back of it is left out."""


def _with_result(body: Body) -> Callable[[Any], Body]:
    """Of a chat: the answer goes back as it came."""

    def later(message: Any) -> Body:
        (call,) = message["tool_calls"]
        result = {"role": "tool", "content": "hello", "tool_call_id": call["id"]}
        return {**body, "messages": [*body["messages"], message, result]}

    return later


def _function(**more: Any) -> Body:
    return {"type": "function", "function": {"name": "read", "description": "Reads.", "parameters": READ, **more}}


def _cached(text: str) -> Body:
    return {"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}


def claude_code() -> Agent:
    """Streams Messages of a beta, with its session in the metadata and a system message in the midst."""
    reminder = "<system-reminder>\nToday is Monday.\n</system-reminder>\n"
    body: Body = {
        "model": "local",
        "max_tokens": 32000,
        "stream": True,
        "system": [
            {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1; cc_entrypoint=cli; cch=0a1b2;"},
            {**_cached("You are an agent."), "cache_control": {"type": "ephemeral", "ttl": "1h", "scope": "global"}},
            _cached("You help with software."),
        ],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": reminder}, _cached(ASKED)]},
            {"role": "system", "content": "Skills: none."},
        ],
        "tools": [
            {"name": "read", "description": "Reads.", "input_schema": READ, "strict": False},
            {"type": "web_search_20250305", "name": "web_search", "max_uses": 8},
            {"name": "later", "description": "Other.", "input_schema": {"type": "object"}, "defer_loading": True},
        ],
        "metadata": {"user_id": f'{{"device_id":"ab","account_uuid":"","session_id":"{SESSION}"}}'},
        "thinking": {"type": "adaptive"},
        "output_config": {"effort": "high"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    }

    def later(blocks: Any) -> Body:
        (use,) = [block for block in blocks if block["type"] == "tool_use"]
        result = {"type": "tool_result", "tool_use_id": use["id"], "content": "hello", "is_error": False}
        told = {**result, "cache_control": {"type": "ephemeral"}}
        turns = [{"role": "assistant", "content": blocks}, {"role": "user", "content": [told]}]
        return {**body, "messages": [*body["messages"], *turns]}

    betas = "claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27,effort-2025-11-24"
    headers = {
        "anthropic-version": "2023-06-01",
        "anthropic-beta": betas,
        "anthropic-dangerous-direct-browser-access": "true",
        "authorization": "Bearer anything",
        "x-app": "cli",
        "x-claude-code-session-id": SESSION,
    }
    return Agent("claude_code", "/v1/messages?beta=true", body, later, headers)


def pi_by_chat() -> Agent:
    """A reasoning model's instructions come from the developer; old thinking comes back in `reasoning`."""
    body: Body = {
        "model": "local",
        "messages": [
            {"role": "developer", "content": "You are an agent."},
            {"role": "user", "content": [{"type": "text", "text": ASKED}]},
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
        "store": False,
        "max_completion_tokens": 1000,
        "reasoning_effort": "medium",
        "tools": [_function(strict=False)],
    }
    return Agent("pi_by_chat", "/v1/chat/completions", body, _with_result(body), keeps_thinking=True)


def pi_by_responses() -> Agent:
    """All items go back; their session is the cache key and a header."""
    body: Body = {
        "model": "local",
        "input": [
            {"role": "developer", "content": "You are an agent."},
            {"role": "user", "content": [{"type": "input_text", "text": ASKED}]},
        ],
        "stream": True,
        "prompt_cache_key": SESSION,
        "prompt_cache_retention": "24h",
        "store": False,
        "max_output_tokens": 1000,
        "tools": [{"type": "function", "name": "read", "description": "Reads.", "parameters": READ, "strict": False}],
        "reasoning": {"effort": "high", "summary": "auto"},
        "include": ["reasoning.encrypted_content"],
        "service_tier": "flex",
    }

    def later(items: Any) -> Body:
        (call,) = [item for item in items if item["type"] == "function_call"]
        result = {"type": "function_call_output", "call_id": call["call_id"], "output": "hello"}
        return {**body, "input": [*body["input"], *items, result]}

    headers = {"session_id": SESSION, "x-client-request-id": SESSION}
    return Agent("pi_by_responses", "/v1/responses", body, later, headers)


def pi_by_messages() -> Agent:
    """Thinking with a budget, whose blocks go back with their signatures; tools stream their input eagerly."""
    body: Body = {
        "model": "local",
        "max_tokens": 16384,
        "stream": True,
        "system": [_cached("You are an agent.")],
        "messages": [{"role": "user", "content": [_cached(ASKED)]}],
        "tools": [{"name": "read", "description": "Reads.", "eager_input_streaming": True, "input_schema": READ}],
        "thinking": {"type": "enabled", "budget_tokens": 15360, "display": "summarized"},
    }

    def later(blocks: Any) -> Body:
        (use,) = [block for block in blocks if block["type"] == "tool_use"]
        result = {"type": "tool_result", "tool_use_id": use["id"], "content": "hello", "is_error": False}
        turns = [{"role": "assistant", "content": blocks}, {"role": "user", "content": [result]}]
        return {**body, "messages": [*body["messages"], *turns]}

    headers = {
        "x-api-key": "sk-x",
        "anthropic-version": "2023-06-01",
        "anthropic-beta": "interleaved-thinking-2025-05-14",
    }
    return Agent("pi_by_messages", "/v1/messages", body, later, headers)


def open_webui() -> Agent:
    """Tells of the user in headers; its own parameters may stand among the fields."""
    body: Body = {
        "stream": True,
        "model": "org/tiny",
        "messages": [{"role": "system", "content": "You are an agent."}, {"role": "user", "content": ASKED}],
        "tools": [_function()],
        "stream_options": {"include_usage": True},
        "temperature": 0.8,
        "top_k": 40,
        "min_p": 0.0,
        "repeat_penalty": 1.1,
        "num_ctx": 8192,
        "mirostat": 0,
        "function_calling": "native",
        "logit_bias": None,
        "stop": ["<|im_end|>"],
        "user": {"name": "Ada", "id": "1", "email": "ada@example.org", "role": "admin"},
        "metadata": {"chat_id": "c-1", "message_id": "m-1", "session_id": "s-1", "features": {"web_search": False}},
    }
    headers = {"X-OpenWebUI-User-Name": "Ada", "X-OpenWebUI-User-Id": "1", "X-OpenWebUI-Chat-Id": "c-1"}
    return Agent("open_webui", "/v1/chat/completions", body, _with_result(body), headers)


def cline() -> Agent:
    """Marks what is to be cached, and gives every message as parts."""
    body: Body = {
        "model": "local",
        "messages": [
            {"role": "system", "content": [_cached("You are an agent.")]},
            {"role": "user", "content": [{"type": "text", "text": "<task>"}, _cached(ASKED)]},
        ],
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [_function(strict=True)],
        "tool_choice": "auto",
        "parallel_tool_calls": False,
        "reasoning_effort": None,
    }
    return Agent("cline", "/v1/chat/completions", body, _with_result(body))


def continue_dev() -> Agent:
    """An editor's agent mode."""
    body: Body = {
        "messages": [{"role": "system", "content": "You are an agent."}, {"role": "user", "content": ASKED}],
        "model": "local",
        "max_tokens": 1000,
        "temperature": None,
        "top_p": None,
        "frequency_penalty": None,
        "presence_penalty": None,
        "stop": [],
        "stream": True,
        "tools": [_function()],
        "tool_choice": "auto",
        "parallel_tool_calls": False,
        "prediction": None,
        "keep_alive": 1800,
    }
    return Agent("continue", "/v1/chat/completions", body, _with_result(body))


AGENTS = (claude_code(), pi_by_chat(), pi_by_responses(), pi_by_messages(), open_webui(), cline(), continue_dev())

TITLE: Body = {
    "model": "org/tiny",
    "messages": [{"role": "user", "content": "### Task:\nGenerate a title."}],
    "stream": False,
    "max_completion_tokens": 1000,
    "metadata": {"task": "title_generation", "task_body": {}, "chat_id": "c-1"},
}
"""Open WebUI names a chat."""
COMPLETION: Body = {
    "model": "local",
    "prompt": "<|fim_prefix|>def add(a, b):\n    return <|fim_suffix|>\n<|fim_middle|>",
    "max_tokens": 2048,
    "temperature": 0.01,
    "stream": True,
    "stop": [
        *("<|endoftext|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>", "<|repo_name|>"),
        *("<|file_sep|>", "<|im_start|>", "<|im_end|>", "/src/", "#- coding: utf-8", "```", "\nfunction", "\nclass"),
    ],
}
"""Continue completes code in the midst of a file: with more stop strings than OpenAI would take."""
