"""Asking a Messages server through Anthropic's SDK, and what it says, whole or streamed."""

from __future__ import annotations

from typing import Any

import anthropic

from tests.support.said import Said

LONGEST = 4000
"""Tokens of an answer, where a test does not say; the protocol wants a limit."""
PATIENCE_S = 120.0


def client_of(url: str) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=url, api_key="none", max_retries=0, timeout=PATIENCE_S)


def ask(client: anthropic.Anthropic, text: str, options: dict[str, Any]) -> Said:
    """The greedy answer to one user's message."""
    return _said(client.messages.create(**_body(text, options)))


def hear(client: anthropic.Anthropic, text: str, options: dict[str, Any]) -> Said:
    """The same, put together by the SDK's helper for streams."""
    pieces: list[str] = []
    with client.messages.stream(**_body(text, options)) as stream:
        for event in stream:
            if event.type == "text":
                pieces.append(event.text)
            elif event.type == "thinking":
                pieces.append(event.thinking)
            elif event.type == "content_block_start" and event.content_block.type == "tool_use":
                pieces.append(event.content_block.name)
        said = _said(stream.get_final_message())
    said.pieces = pieces
    return said


def _body(text: str, options: dict[str, Any]) -> dict[str, Any]:
    greedy = {"temperature": 0, **options.get("extra_body", {})}
    about = {"model": "any", "max_tokens": LONGEST, "messages": [{"role": "user", "content": text}]}
    return {**about, **options, "extra_body": greedy}


def _said(message: Any) -> Said:
    said = Said(finish=message.stop_reason, tokens=message.usage.output_tokens)
    for block in message.content:
        if block.type == "text":
            said.content += block.text
        elif block.type == "thinking":
            assert block.signature
            said.reasoning += block.thinking
        else:
            assert block.type == "tool_use"
            said.calls.append((block.name, block.input))
    return said
