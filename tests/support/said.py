"""Asking a chat server through the official SDK, and what it says, whole or streamed."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import openai

from tests.support.markup import Call


@dataclass
class Said:
    """An answer."""

    content: str = ""
    calls: list[Call] = field(default_factory=list)
    finish: str | None = None
    tokens: int = 0
    reasoning: str = ""
    pieces: list[str] = field(default_factory=list, compare=False)
    """Of a stream: pieces of reasoning and content and names of calls, as they came."""


def ask(client: openai.OpenAI, text: str, options: dict[str, Any]) -> Said:
    """The answer to one user's message."""
    reply = client.chat.completions.create(**_body(text, options))
    (choice,) = reply.choices
    assert reply.usage is not None
    return _said(choice, reply.usage.completion_tokens)


def hear(client: openai.OpenAI, text: str, options: dict[str, Any]) -> Said:
    """The same, streamed."""
    said = Said()
    calls: dict[int, tuple[str, str]] = {}
    stream: Any = client.chat.completions.create(**_body(text, options), stream=True)
    for chunk in stream:
        (choice,) = chunk.choices
        reasoning = choice.delta.model_dump().get("reasoning") or ""
        said.reasoning += reasoning
        said.content += choice.delta.content or ""
        said.pieces += [piece for piece in (reasoning, choice.delta.content) if piece]
        for call in choice.delta.tool_calls or []:
            name, so_far = calls.get(call.index, (call.function.name, ""))
            calls[call.index] = (name, so_far + call.function.arguments)
            said.pieces.append(name)
        said.finish = choice.finish_reason or said.finish
        said.tokens = chunk.usage.completion_tokens if chunk.usage else said.tokens
    assert sorted(calls) == list(range(len(calls)))
    said.calls = [(name, json.loads(arguments)) for name, arguments in calls.values()]
    return said


def helped(client: openai.OpenAI, text: str, options: dict[str, Any]) -> Said:
    """The same, put together by the SDK's own helper for streams."""
    with client.chat.completions.stream(**_body(text, options)) as stream:
        reply = stream.get_final_completion()
    (choice,) = reply.choices
    return _said(choice, reply.usage.completion_tokens if reply.usage else 0)


def _body(text: str, options: dict[str, Any]) -> dict[str, Any]:
    return {"model": "any", "messages": [{"role": "user", "content": text}], "temperature": 0, **options}


def _said(choice: Any, tokens: int) -> Said:
    message = choice.message
    calls = [(call.function.name, json.loads(call.function.arguments)) for call in message.tool_calls or []]
    reasoning = message.model_dump().get("reasoning") or ""
    return Said(message.content or "", calls, choice.finish_reason, tokens, reasoning)
