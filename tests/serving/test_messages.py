"""Anthropic's SDK against the real starter on Ray, and one conversation through all three protocols."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anthropic
import httpx
import openai
import pytest

from tests.support.heard import client_of
from tests.support.server import Server

CAPITAL = "What is the capital of France?"
ANSWER = "The capital of France is Paris."
SYSTEM = "You are a helpful assistant who answers in one sentence."
TURNS = [
    ("user", "Name a river."),
    ("assistant", "The Rhine is a river in Europe."),
    ("user", "Where does it begin? Tell me of its course, too."),
]
SCHEMA: Any = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
LIMIT = 60


@pytest.fixture
def sdk(server: Server) -> Iterator[anthropic.Anthropic]:
    with client_of(server.url) as library:
        yield library


def greedy(question: str, **more: Any) -> Any:
    asked = [{"role": "user", "content": question}]
    return {"model": "any", "max_tokens": LIMIT, "messages": asked, "extra_body": {"temperature": 0}, **more}


def test_an_answer_whole_and_streamed(sdk: anthropic.Anthropic) -> None:
    whole = sdk.messages.create(**greedy(CAPITAL))
    assert [block.text for block in whole.content if block.type == "text"] == [ANSWER]
    assert whole.stop_reason == "end_turn"
    with sdk.messages.stream(**greedy(CAPITAL)) as stream:
        assert "".join(stream.text_stream) == ANSWER
        said = stream.get_final_message()
    assert said.usage.output_tokens == whole.usage.output_tokens


def test_what_the_cache_held_is_counted_beside_the_input(sdk: anthropic.Anthropic) -> None:
    question = f"{CAPITAL} Say it as a poet would, for somebody who has never been there."
    counted = sdk.messages.count_tokens(model="any", messages=[{"role": "user", "content": question}]).input_tokens
    sdk.messages.create(**greedy(question))
    again = sdk.messages.create(**greedy(question))
    assert again.usage.cache_read_input_tokens is not None
    assert again.usage.cache_read_input_tokens >= 16
    assert again.usage.input_tokens + again.usage.cache_read_input_tokens == counted


def test_a_stop_sequence_is_told(sdk: anthropic.Anthropic) -> None:
    said = sdk.messages.create(**greedy(CAPITAL, stop_sequences=["of France", "never"]))
    assert (said.stop_reason, said.stop_sequence) == ("stop_sequence", "of France")
    assert [block.text for block in said.content if block.type == "text"] == ["The capital "]


def test_a_call_that_is_asked_for_is_made(sdk: anthropic.Anthropic) -> None:
    tool = {"name": "get_weather", "description": "Weather of a city.", "input_schema": SCHEMA}
    choice = {"type": "tool", "name": "get_weather"}
    with sdk.messages.stream(**greedy("How is the weather in Rome?", tools=[tool], tool_choice=choice)) as stream:
        said = stream.get_final_message()
    (call,) = said.content
    assert call.type == "tool_use"
    assert (call.name, list(call.input)) == ("get_weather", ["city"])
    assert said.stop_reason == "tool_use"


def test_a_wrong_request_is_refused_in_the_shape_of_the_protocol(server: Server) -> None:
    refused = httpx.post(f"{server.url}/v1/messages", json={"messages": [{"role": "user", "content": [{}]}]})
    assert refused.status_code == 400
    assert refused.json()["type"] == "error"
    assert refused.json()["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize("turns", [1, 3])
def test_one_conversation_has_one_answer_in_every_protocol(
    client: openai.OpenAI, sdk: anthropic.Anthropic, turns: int
) -> None:
    messages: Any = [{"role": role, "content": words} for role, words in TURNS[-turns:]]
    chat = client.chat.completions.create(
        model="any", messages=[{"role": "system", "content": SYSTEM}, *messages], temperature=0, max_tokens=LIMIT
    )
    message = sdk.messages.create(**{**greedy(""), "messages": messages}, system=SYSTEM)
    response = client.responses.create(
        model="any", input=messages, instructions=SYSTEM, temperature=0, max_output_tokens=LIMIT
    )
    assert chat.usage is not None and response.usage is not None
    text = chat.choices[0].message.content
    assert text
    assert [block.text for block in message.content if block.type == "text"] == [text]
    assert response.output_text == text
    counts = (chat.usage.prompt_tokens, chat.usage.completion_tokens)
    read = message.usage.input_tokens + (message.usage.cache_read_input_tokens or 0)
    assert (read, message.usage.output_tokens) == counts
    assert (response.usage.input_tokens, response.usage.output_tokens) == counts
