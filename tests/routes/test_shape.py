"""The JSON of both protocols, byte by byte."""

from __future__ import annotations

import json
import re

import pytest

from routes.chat import ChatShape
from routes.completions import TextShape
from routes.parts import Content, Reasoning, ToolCall
from routes.shape import Choice, Usage

USAGE = Usage(prompt_tokens=2, cached_tokens=1, completion_tokens=1, reasoning_tokens=0, lane="batched")
COUNTED = (
    '{"prompt_tokens":2,"completion_tokens":1,"total_tokens":3,"prompt_tokens_details":{"cached_tokens":1},'
    '"lane":"batched"}'
)
SCORED: dict[str, list[dict[str, object]]] = {"content": [{"id": 1, "logprob": -0.5}]}
ODD = 'tag "content":"" \\ \n\u2028 é😀'


def chat() -> ChatShape:
    return ChatShape("id-1", "m", 7)


def text() -> TextShape:
    return TextShape("id-1", "m", 7)


def anonymous(frame: bytes) -> str:
    return re.sub(r"call_[0-9a-f]{24}", "call_X", frame.decode())


def chunk(index: int, delta: str, finish: str = "null", more: str = "") -> str:
    return (
        '{"id":"id-1","created":7,"model":"m","object":"chat.completion.chunk","choices":'
        f'[{{"index":{index},"delta":{delta},"finish_reason":{finish}}}]{more}}}'
    )


def test_the_frames_of_a_chat_stream() -> None:
    shape = chat()
    role = chunk(1, '{"role":"assistant","content":""}')
    stop = chunk(0, "{}", '"stop"')
    last = chunk(0, "{}", '"tool_calls"', ',"usage":' + COUNTED)
    assert shape.opening(1).decode() == f"data: {role}\n\n"
    assert shape.closing(0, "stop", None).decode() == f"data: {stop}\n\n"
    assert shape.closing(0, "tool_calls", USAGE).decode() == f"data: {last}\n\n"


def test_each_part_is_a_frame_of_its_own() -> None:
    shape = chat()
    frames = anonymous(shape.pieces(2, [Reasoning("r"), Content("c"), ToolCall("f", '{"a":1}'), ToolCall("g", "{}")]))
    call = '{"tool_calls":[{"index":%d,"id":"call_X","type":"function","function":{"name":"%s","arguments":"%s"}}]}'
    assert frames == "".join(
        f"data: {chunk(2, delta)}\n\n"
        for delta in (
            '{"reasoning":"r"}',
            '{"content":"c"}',
            call % (0, "f", '{\\"a\\":1}'),
            call % (1, "g", "{}"),
        )
    )


def test_calls_are_numbered_by_choice_across_frames() -> None:
    shape = chat()
    frames = [shape.pieces(index, [ToolCall("f", "{}")]) for index in (0, 1, 0)]
    numbers = [
        json.loads(frame.decode().removeprefix("data: "))["choices"][0]["delta"]["tool_calls"][0]["index"]
        for frame in frames
    ]
    assert numbers == [0, 0, 1]


@pytest.mark.parametrize("model", ["m", '"content":"', '"text":"","reasoning":""'])
@pytest.mark.parametrize("words", ["x", "", ODD, '"}'])
def test_no_words_and_no_model_name_break_a_frame(words: str, model: str) -> None:
    for part, key in ((Content(words), "content"), (Reasoning(words), "reasoning")):
        frame = ChatShape("id", model, 7).pieces(0, [part]).decode()
        assert frame.count("\n") == 2
        body = json.loads(frame.removeprefix("data: "))
        assert (body["model"], body["choices"][0]["delta"]) == (model, {key: words})
    body = json.loads(TextShape("id", model, 7).pieces(0, [Content(words)]).decode().removeprefix("data: "))
    assert (body["model"], body["choices"][0]["text"]) == (model, words)


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (Choice("hi", "", (), "stop", None), '{"role":"assistant","content":"hi"}'),
        (Choice("", "", (), "length", None), '{"role":"assistant","content":""}'),
        (Choice("hi", "why", (), "stop", None), '{"role":"assistant","content":"hi","reasoning":"why"}'),
        (
            Choice("", "why", (ToolCall("f", "{}"),), "tool_calls", None),
            '{"role":"assistant","content":null,"reasoning":"why","tool_calls":'
            '[{"id":"call_X","type":"function","function":{"name":"f","arguments":"{}"}}]}',
        ),
        (
            Choice("so", "", (ToolCall("f", "{}"),), "tool_calls", None),
            '{"role":"assistant","content":"so","tool_calls":'
            '[{"id":"call_X","type":"function","function":{"name":"f","arguments":"{}"}}]}',
        ),
    ],
)
def test_a_whole_chat_message(choice: Choice, message: str) -> None:
    body = anonymous(chat().whole([choice], USAGE))
    assert body == (
        '{"id":"id-1","created":7,"model":"m","object":"chat.completion","choices":[{"index":0,"message":'
        + message
        + f',"finish_reason":"{choice.finish}"}}],"usage":{COUNTED}}}'
    )


def test_log_probabilities_stand_beside_the_message() -> None:
    body = json.loads(chat().whole([Choice("a", "", (), "stop", SCORED), Choice("b", "", (), "stop", None)], USAGE))
    assert [choice.get("logprobs") for choice in body["choices"]] == [SCORED, None]
    assert "logprobs" not in body["choices"][1]
    body = json.loads(text().whole([Choice("a", "", (), "stop", SCORED)], USAGE))
    assert body["choices"] == [{"index": 0, "text": "a", "finish_reason": "stop", "logprobs": SCORED}]


def test_the_frames_of_a_text_stream() -> None:
    shape = text()
    head = '{"id":"id-1","object":"text_completion","created":7,"model":"m","choices":'
    assert shape.opening(0) == b""
    assert shape.pieces(1, [Content("a"), Content("b")]).decode() == "".join(
        f'data: {head}[{{"index":1,"text":"{letter}","finish_reason":null}}]}}\n\n' for letter in "ab"
    )
    assert shape.closing(1, "length", None).decode() == (
        f'data: {head}[{{"index":1,"text":"","finish_reason":"length"}}]}}\n\n'
    )
    assert shape.closing(0, "stop", USAGE).decode() == (
        f'data: {head}[{{"index":0,"text":"","finish_reason":"stop"}}],"usage":{COUNTED}}}\n\n'
    )
