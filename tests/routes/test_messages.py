"""POST /v1/messages: its JSON and its events, from a scheduler that says what a script tells it to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable

import pytest

from actors.generation.messages import Delta, Submit
from routes import answer
from routes.messages import PIECE
from tests.routes.call import Call
from tests.routes.harness import END, connect
from tests.routes.messaging import (
    ASKED,
    CALLED,
    COUNT,
    PATH,
    TOOL,
    assembled,
    both,
    events,
    house,
    message,
    request,
    streamed,
)
from tests.routes.reading import hermes
from tests.routes.scripted_generation import Step
from tests.support.waiting import until


async def test_a_whole_message() -> None:
    server = house()
    server.says("Hello", cached=5)
    said = await both(server, system="Be brief.")
    prompt = len(server.generation.submitted[0].prompt) // 4
    assert said == {
        "type": "message",
        "role": "assistant",
        "model": "org/tiny",
        "content": [{"type": "text", "text": "Hello"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": prompt - 5, "cache_read_input_tokens": 5, "output_tokens": 6},
    }


async def test_what_did_not_come_from_the_cache_is_not_said_to() -> None:
    server = house()
    server.says("Hello")
    assert "cache_read_input_tokens" not in (await both(server))["usage"]


async def test_the_events_of_a_stream_in_their_order() -> None:
    server = house()
    server.says("<think>\nH", "m\n</think>\n\nIt ", "rains.", CALLED, cached=2)
    kinds = [
        (event["type"], event.get("index"), event.get("delta", {}).get("type"))
        for event in await streamed(server, tools=[TOOL])
    ]
    assert kinds == [
        ("message_start", None, None),
        ("ping", None, None),
        ("content_block_start", 0, None),
        ("content_block_delta", 0, "thinking_delta"),
        ("content_block_delta", 0, "thinking_delta"),
        ("content_block_delta", 0, "signature_delta"),
        ("content_block_stop", 0, None),
        ("content_block_start", 1, None),
        ("content_block_delta", 1, "text_delta"),
        ("content_block_delta", 1, "text_delta"),
        ("content_block_stop", 1, None),
        ("content_block_start", 2, None),
        ("content_block_delta", 2, "input_json_delta"),
        ("content_block_stop", 2, None),
        ("message_delta", None, None),
        ("message_stop", None, None),
    ]


async def test_a_stream_begins_with_what_the_prompt_counts() -> None:
    server = house()
    server.says("Hello", cached=5)
    (start, *_) = await streamed(server)
    prompt = len(server.row.prompt) // 4
    assert start["message"]["usage"] == {
        "input_tokens": prompt - 5,
        "cache_read_input_tokens": 5,
        "output_tokens": 0,
    }


async def test_thinking_text_and_calls_are_blocks() -> None:
    server = house()
    server.says(f"<think>\nHm.\n</think>\n\nLet me see.\n{CALLED}\n{CALLED}")
    said = await both(server, tools=[TOOL])
    thought, *rest = said["content"]
    assert (thought["type"], thought["thinking"]) == ("thinking", "Hm.")
    assert thought["signature"]
    call = {"type": "tool_use", "name": "weather", "input": {"city": "Paris"}}
    assert rest == [{"type": "text", "text": "Let me see."}, call, call]
    assert said["stop_reason"] == "tool_use"


async def test_thinking_that_is_omitted_leaves_its_block() -> None:
    server = house()
    server.says("<think>\nHm.\n</think>\n\nYes.")
    said = await both(server, thinking={"type": "adaptive", "display": "omitted"})
    thought, spoken = said["content"]
    assert (thought["thinking"], spoken["text"]) == ("", "Yes.")
    assert thought["signature"]


async def test_long_arguments_come_in_pieces() -> None:
    server = house()
    city = '"é\\ ' * PIECE
    server.says(hermes("weather", city=city))
    stream = await streamed(server, tools=[TOOL])
    assert sum(event.get("delta", {}).get("type") == "input_json_delta" for event in stream) > 2
    assert assembled(stream)["content"][0]["input"] == {"city": city}


async def test_a_number_of_any_size_passes_as_the_model_wrote_it() -> None:
    server = house()
    server.says(f'<tool_call>\n{{"name": "weather", "arguments": {{"n": {10**30}}}}}\n</tool_call>')
    (call,) = (await both(server, tools=[{"name": "weather", "input_schema": {"type": "object"}}]))["content"]
    assert call["input"] == {"n": 10**30}


@pytest.mark.parametrize(
    ("pieces", "finish", "reason", "sequence"),
    [
        (["Hello"], "stop", "end_turn", None),
        (["Hello"], "length", "max_tokens", None),
        (["Hello ST", "OP there"], "length", "stop_sequence", "STOP"),
        ([f"{CALLED} STOP"], "length", "tool_use", None),
    ],
)
async def test_why_a_message_ended(pieces: list[str], finish: str, reason: str, sequence: str | None) -> None:
    server = house()
    server.says(*pieces, finish=finish)
    said = await both(server, stop_sequences=["END", "STOP"], tools=[TOOL])
    assert (said["stop_reason"], said["stop_sequence"]) == (reason, sequence)


async def test_an_empty_answer_has_no_blocks() -> None:
    server = house()
    server.says()
    assert (await both(server))["content"] == []


async def test_tokens_are_counted_without_an_answer() -> None:
    server = house()
    server.says("x")
    body = {"system": "Be brief.", "tools": [TOOL], "messages": ASKED, "model": "any"}
    async with connect(server) as client:
        counted = (await client.post(COUNT, json=body)).json()
    assert server.generation.submitted == []
    await message(server, **body)
    assert counted == {"input_tokens": len(server.row.prompt) // 4}


async def test_a_session_is_taken_from_the_user() -> None:
    server = house()
    server.says("x")
    await message(server, metadata={"user_id": "user_7"})
    assert server.row.session == "user_7"


async def test_a_long_prompt_is_waited_for_with_pings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer, "HEARTBEAT_S", 0.001)
    server, computed = house(), asyncio.Event()

    def script(submit: Submit) -> Iterable[Step]:
        yield computed
        yield Delta(submit.request_id, (65,), cached_tokens=0)
        yield Delta(submit.request_id, (END,), finish="stop")

    server.generation.script = script
    call = Call(server.app, PATH, json.dumps(request(stream=True)).encode())
    await until(lambda: call.body.count(b"event: ping") >= 3)
    computed.set()
    await call.task
    kinds = [event["type"] for event in events(call.body.decode())]
    start = kinds.index("message_start")
    assert set(kinds[:start]) == {"ping"}
    assert kinds[start + 1 :].count("ping") == 1


async def test_a_call_that_is_held_back_is_waited_for_with_pings() -> None:
    server = house()
    tokens = server.context.tokenizer.encode(hermes("weather", city="x" * 100))

    def script(submit: Submit) -> Iterable[Step]:
        yield Delta(submit.request_id, cached_tokens=0)
        for start in range(0, len(tokens), 50):
            server.clock.advance(answer.HEARTBEAT_S)
            yield Delta(submit.request_id, tuple(tokens[start : start + 50]))
        yield Delta(submit.request_id, (END,), finish="stop")

    server.generation.script = script
    stream = await streamed(server, tools=[TOOL])
    kinds = [event["type"] for event in stream]
    assert kinds[:4] == ["message_start", "ping", "ping", "ping"]
    assert assembled(stream)["content"][0]["input"] == {"city": "x" * 100}
