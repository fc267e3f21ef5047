"""Earlier tool calls and their results in a conversation."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.routes.harness import House, build, byte_tokenizer
from tests.routes.reading import Answer, post, whole
from tests.routes.templates import TOOLS


def house() -> House:
    return build(tokenizer=byte_tokenizer(TOOLS))


HISTORY: list[dict[str, Any]] = [
    {"role": "user", "content": "Weather?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Paris"}'}}
        ],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
]
ROUND = (
    "<|start|>user:Weather?<|end|><|start|>assistant:<tool_call>weather city=Paris</tool_call><|end|>"
    "<|start|>tool:sunny<|end|><|start|>assistant:"
)


@pytest.mark.parametrize("arguments", ['{"city": "Paris"}', {"city": "Paris"}])
@pytest.mark.parametrize("content", [None, "", []])
@pytest.mark.parametrize("result", ["sunny", [{"type": "text", "text": "sun"}, {"type": "text", "text": "ny"}]])
async def test_a_round_trip_of_a_call_reads_the_same_however_it_is_written(
    arguments: object, content: object, result: object
) -> None:
    server = house()
    server.says("Sunny.")
    user, call, answer = json.loads(json.dumps(HISTORY))
    call["content"] = content
    call["tool_calls"][0]["function"]["arguments"] = arguments
    answer["content"] = result
    assert await whole(server, messages=[user, call, answer]) == [Answer("Sunny.", "", [], "stop")]
    assert server.prompt == ROUND


@pytest.mark.parametrize("arguments", [None, "", " ", "{}", {}])
async def test_history_with_a_call_without_arguments(arguments: object) -> None:
    server = house()
    server.says("ok")
    call = {"function": {"name": "clock", "arguments": arguments}}
    await post(server, messages=[{"role": "user", "content": "t?"}, {"role": "assistant", "tool_calls": [call]}])
    assert "<|start|>assistant:<tool_call>clock</tool_call><|end|>" in server.prompt
