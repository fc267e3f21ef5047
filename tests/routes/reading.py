"""How the route tests ask for an answer and read it: whole or streamed, into one shape that can be compared."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.routes.harness import House, chat, connect, events

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"


@dataclass
class Answer:
    """One choice."""

    content: str | None = ""
    """Its text; None where the protocol says null."""
    reasoning: str = ""
    """Its thinking."""
    calls: list[tuple[str, str]] = field(default_factory=list)
    """Names and arguments of its tool calls."""
    finish: str | None = None
    """Its finish reason."""


async def post(house: House, path: str = CHAT, /, **fields: Any) -> httpx.Response:
    """Send a chat body, or a prompt."""
    body = chat(**fields) if path == CHAT else {"prompt": "x", **fields}
    async with connect(house) as client:
        return await client.post(path, json=body)


async def whole(house: House, **fields: Any) -> list[Answer]:
    """The choices of a chat answer that is not streamed."""
    response = await post(house, **fields)
    assert response.status_code == 200, response.text
    choices = response.json()["choices"]
    assert [choice["index"] for choice in choices] == list(range(len(choices)))
    return [_answer(choice) for choice in choices]


async def streamed(house: House, **fields: Any) -> list[Answer]:
    """The choices of a streamed chat answer."""
    return assembled((await post(house, stream=True, **fields)).text)


async def both(house: House, **fields: Any) -> list[Answer]:
    """The choices of an answer, after a check that its stream says the same."""
    answers = await whole(house, **fields)
    assert await streamed(house, **fields) == answers
    return answers


async def deltas(house: House, **fields: Any) -> list[dict[str, Any]]:
    """The deltas of a stream with one choice, without the role in front and the finish at the end."""
    chunks = events((await post(house, stream=True, **fields)).text)
    return [chunk["choices"][0]["delta"] for chunk in chunks[1:-1]]


def assembled(body: str) -> list[Answer]:
    """The choices of a stream, whose frame is checked: roles first, one finish a choice, usage at the very end."""
    lines = [line for line in body.split("\n\n") if not line.startswith(":")]
    chunks = events("\n\n".join(lines))
    count = sum("role" in chunk["choices"][0]["delta"] for chunk in chunks)
    assert [_only(chunk) for chunk in chunks[:count]] == [
        {"index": index, "delta": {"role": "assistant", "content": ""}, "finish_reason": None} for index in range(count)
    ]
    assert ["usage" in chunk for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    answers = [Answer() for _ in range(count)]
    for chunk in chunks[count:]:
        choice = _only(chunk)
        _add(answers[choice["index"]], choice)
    for answer in answers:
        answer.content = None if answer.calls and not answer.content else answer.content
    return answers


def _only(chunk: dict[str, Any]) -> dict[str, Any]:
    (choice,) = chunk["choices"]
    assert set(choice) == {"index", "delta", "finish_reason"}
    return choice


def _add(answer: Answer, choice: dict[str, Any]) -> None:
    assert answer.finish is None
    delta = choice["delta"]
    assert len(delta) == (0 if choice["finish_reason"] else 1)
    answer.finish = choice["finish_reason"]
    answer.content = (answer.content or "") + delta.get("content", "")
    answer.reasoning += delta.get("reasoning", "")
    for call in delta.get("tool_calls", []):
        assert call.pop("index") == len(answer.calls)
        answer.calls.append(_call(call))


def _answer(choice: dict[str, Any]) -> Answer:
    message = choice["message"]
    assert message["role"] == "assistant"
    assert set(message) <= {"role", "content", "reasoning", "tool_calls"}
    calls = [_call(call) for call in message.get("tool_calls", [])]
    return Answer(message["content"], message.get("reasoning", ""), calls, choice["finish_reason"])


def _call(call: dict[str, Any]) -> tuple[str, str]:
    assert set(call) == {"id", "type", "function"}
    assert set(call["function"]) == {"name", "arguments"}
    assert call["type"] == "function"
    assert call["id"].startswith("call_")
    return call["function"]["name"], call["function"]["arguments"]


def tool(name: str, **properties: str) -> dict[str, Any]:
    """A function whose parameters have these types."""
    schema = {"type": "object", "properties": {key: {"type": kind} for key, kind in properties.items()}}
    return {"type": "function", "function": {"name": name, "parameters": schema}}


def hermes(name: str, **arguments: object) -> str:
    """A call as Hermes and Qwen write it."""
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def halves(text: str) -> Sequence[tuple[str, str]]:
    """Every way to cut a text in two."""
    return [(text[:at], text[at:]) for at in range(len(text) + 1)]
