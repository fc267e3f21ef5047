"""POST /v1/messages: its JSON, its events and its errors, from a scheduler that says what a script tells it to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Any

import httpx
import pytest

from actors.errors import GenerationFailed, QueueFull
from actors.generation.grammar.constraint import Budget
from actors.generation.messages import Delta, Submit
from routes import answer
from routes.messages import PIECE
from tests.routes.harness import END, Call, House, Step, build, byte_tokenizer, connect, description
from tests.routes.reading import hermes
from tests.routes.templates import HARMONY, HARMONY_TOKENS, OPENED, THINK

PATH = "/v1/messages"
COUNT = f"{PATH}/count_tokens"
ASKED = [{"role": "user", "content": "hi"}]
TOOL = {"name": "weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}
CALLED = hermes("weather", city="Paris")


def house(template: str = THINK, *special: str, **settings: Any) -> House:
    return build(settings or None, tokenizer=byte_tokenizer(template, special))


def request(**fields: Any) -> dict[str, Any]:
    return {"model": "any", "max_tokens": 100, "messages": ASKED, **fields}


async def post(server: House, path: str = PATH, /, **fields: Any) -> httpx.Response:
    async with connect(server) as client:
        return await client.post(path, json=request(**fields))


async def message(server: House, **fields: Any) -> dict[str, Any]:
    response = await post(server, **fields)
    assert response.status_code == 200, response.text
    return response.json()


def events(body: str) -> list[dict[str, Any]]:
    """The events of a stream; each one's name must be its type."""
    frames = body.split("\n\n")
    assert frames.pop() == ""
    read = []
    for frame in frames:
        name, data = frame.split("\n")
        read.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {read[-1]['type']}"
    return read


async def streamed(server: House, **fields: Any) -> list[dict[str, Any]]:
    response = await post(server, stream=True, **fields)
    assert response.status_code == 200, response.text
    return events(response.text)


def assembled(stream: list[dict[str, Any]]) -> dict[str, Any]:
    """The message that a stream's events put together, whose order is checked."""
    kinds = [event["type"] for event in stream if event["type"] != "ping"]
    assert (kinds[0], kinds[-2:]) == ("message_start", ["message_delta", "message_stop"])
    whole = stream[0]["message"]
    assert whole["content"] == []
    for event in stream:
        blocks = whole["content"]
        if event["type"] == "content_block_start":
            assert event["index"] == len(blocks)
            blocks.append({**event["content_block"], "open": True, "json": ""})
        elif event["type"] == "content_block_delta":
            assert event["index"] == len(blocks) - 1 and blocks[-1]["open"]
            _grow(blocks[-1], event["delta"])
        elif event["type"] == "content_block_stop":
            assert event["index"] == len(blocks) - 1 and blocks[-1].pop("open")
            pieces = blocks[-1].pop("json")
            if blocks[-1]["type"] == "tool_use":
                blocks[-1]["input"] = json.loads(pieces)
    delta = stream[-2]
    return {**whole, **delta["delta"], "usage": {**whole["usage"], **delta["usage"]}}


def _grow(block: dict[str, Any], delta: dict[str, Any]) -> None:
    name = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}.get(delta["type"])
    if name is None:
        block["json"] += delta["partial_json"]
    else:
        block[name] += delta[name]


def anonymous(said: dict[str, Any]) -> dict[str, Any]:
    """Without ids, whose beginnings are checked."""
    assert said.pop("id").startswith("msg_")
    for block in said["content"]:
        if block["type"] == "tool_use":
            assert block.pop("id").startswith("toolu_")
    return said


async def both(server: House, **fields: Any) -> dict[str, Any]:
    """A whole message, after a check that its stream says the same."""
    whole = anonymous(await message(server, **fields))
    assert anonymous(assembled(await streamed(server, **fields))) == whole
    return whole


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


@pytest.mark.parametrize("thinking", [None, {"type": "disabled"}, {"type": "adaptive"}])
async def test_without_a_budget_nothing_is_bound(thinking: object) -> None:
    server = house(OPENED)
    server.says("x")
    await message(server, thinking=thinking)
    assert server.row.constraint is None
    assert server.prompt.endswith("<think></think>" if thinking == {"type": "disabled"} else "<think>\n")


async def test_a_budget_goes_to_the_scheduler() -> None:
    server = house(OPENED)
    server.says("x")
    await message(server, thinking={"type": "enabled", "budget_tokens": 9})
    closing = tuple(server.context.tokenizer.encode_bare("\n</think>"))
    assert server.row.constraint is not None
    assert server.row.constraint.kind == "free"
    assert server.row.constraint.budget == Budget(9, "<think>", "</think>", closing, opened=True, anywhere=False)


async def test_a_budget_in_channels_counts_wherever_they_begin() -> None:
    server = house(HARMONY, *HARMONY_TOKENS)
    server.says("x")
    await message(server, thinking={"type": "enabled", "budget_tokens": 9})
    budget = server.row.constraint and server.row.constraint.budget
    assert budget is not None
    assert (budget.start, budget.end, budget.opened) == ("<|channel|>analysis<|message|>", "<|end|>", False)
    assert budget.anywhere


async def test_a_budget_that_cannot_be_kept_is_told() -> None:
    server = house(generation={"grammar": {"enabled": False}})
    server.says("x")
    response = await post(server, thinking={"type": "enabled", "budget_tokens": 9})
    assert response.headers["warning"].startswith("thinking budget not enforced:")
    assert server.row.constraint is None


async def test_a_budget_stays_where_a_format_cannot_be_had() -> None:
    server = house()
    server.says("x")
    refused: list[str] = []

    async def compile(constraint: Any) -> str | None:
        refused.append(constraint.kind)
        return "too large" if constraint.kind == "json_schema" else None

    server.generation.compile = compile
    wanted = {"type": "json_schema", "schema": {"type": "object"}}
    response = await post(server, thinking={"type": "enabled", "budget_tokens": 9}, output_config={"format": wanted})
    assert response.headers["warning"] == "grammar not enforced: too large"
    assert refused == ["json_schema", "free"]
    constraint = server.row.constraint
    assert constraint is not None
    assert constraint.kind == "free" and constraint.budget is not None


CLAUDE_CODE = {
    "model": "claude-opus-4-8",
    "max_tokens": 32000,
    "stream": True,
    "system": [
        {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.0.f00; cch=a1b2c;"},
        {"type": "text", "text": "You are a coding agent.", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
        {"type": "text", "text": "Tools may be used.", "cache_control": {"type": "ephemeral"}},
    ],
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "<system-reminder>\nToday is Monday.\n</system-reminder>\n"},
                {"type": "text", "text": "List the files.", "cache_control": {"type": "ephemeral"}},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "I list them.", "signature": "c2ln"},
                {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}, "caller": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "a.py", "is_error": False},
                {"type": "text", "text": "Go on."},
            ],
        },
    ],
    "tools": [
        {
            "name": name,
            "description": "d" * 2000,
            "input_schema": {
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "type": "object",
                "properties": {"command": {"type": "string"}, "timeout": {"type": "number"}},
                "required": ["command"],
                "additionalProperties": False,
            },
            "eager_input_streaming": True,
        }
        for name in ("Bash", "Read", "Edit", "Write", "Glob", "Grep", "Task", "TodoWrite")
    ]
    + [{"type": "web_search_20250305", "name": "web_search", "max_uses": 8}],
    "tool_choice": {"type": "auto"},
    "metadata": {"user_id": json.dumps({"device_id": "d" * 64, "session_id": "5e55"})},
    "thinking": {"type": "adaptive"},
    "output_config": {"effort": "high"},
    "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    "diagnostics": {"previous_message_id": None},
    "speed": "standard",
}
BETAS = {
    "anthropic-version": "2023-06-01",
    "anthropic-beta": "claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27",
    "x-api-key": "anything",
    "x-app": "cli",
}


async def test_a_body_as_claude_code_sends_it() -> None:
    server = house()
    server.says('<tool_call>\n{"name": "Bash", "arguments": {"command": "cat a.py"}}\n</tool_call>')
    async with connect(server) as client:
        response = await client.post(f"{PATH}?beta=true", json=CLAUDE_CODE, headers=BETAS)
    assert response.status_code == 200, response.text
    said = assembled(events(response.text))
    assert said["stop_reason"] == "tool_use"
    assert said["content"][0]["input"] == {"command": "cat a.py"}
    prompt = server.prompt
    assert "billing" not in prompt and "web_search" not in prompt and "I list them." not in prompt
    assert "<|start|>system:You are a coding agent.\n\nTools may be used.<|end|>" in prompt
    assert "<|start|>assistant:<tool_call>Bash command=ls</tool_call><|end|><|start|>tool:a.py<|end|>" in prompt


async def test_errors_have_the_shape_of_the_protocol() -> None:
    server = house(server={"api_key": "secret", "max_body_bytes": 1000})
    key = {"x-api-key": "secret"}
    async with connect(server) as client:
        refused = [
            await client.post(PATH, json=request()),
            await client.post(PATH, json=request(messages=[]), headers=key),
            await client.post(PATH, content=b"{", headers=key),
            await client.post(PATH, json=request(system="x" * 1100), headers=key),
            await client.get(PATH, headers=key),
            await client.get(f"{PATH}/batches", headers=key),
            await client.post(COUNT, json={"messages": []}, headers=key),
        ]
        server.generation.refusal = QueueFull("the line is full")
        refused.append(await client.post(PATH, json=request(), headers=key))
        server.generation.refusal = GenerationFailed("it broke")
        refused.append(await client.post(PATH, json=request(stream=True), headers=key))
        server.generation.refusal = RuntimeError("a secret of the server")
        refused.append(await client.post(PATH, json=request(), headers=key))
        server.context.gate.close()
        refused.append(await client.post(PATH, json=request(), headers=key))
        refused.append(await client.post(COUNT, json=request(), headers=key))
    told = [(response.status_code, response.json()["error"]["type"]) for response in refused]
    assert told == [
        (401, "authentication_error"),
        (400, "invalid_request_error"),
        (400, "invalid_request_error"),
        (413, "request_too_large"),
        (405, "invalid_request_error"),
        (404, "not_found_error"),
        (400, "invalid_request_error"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (500, "api_error"),
        (503, "api_error"),
        (503, "api_error"),
    ]
    for response in refused:
        body = response.json()
        assert (set(body), body["type"]) == ({"type", "error"}, "error")
        assert set(body["error"]) == {"type", "message"}
        assert response.headers["request-id"] == response.headers["x-request-id"]
    assert refused[9].json()["error"]["message"] == "internal server error"


async def test_an_error_in_mid_stream_is_the_last_event() -> None:
    server = house()
    server.generation.script = lambda row: [
        Delta(row.request_id, (65,), cached_tokens=0),
        GenerationFailed("the row failed"),
    ]
    stream = await streamed(server)
    assert [event["type"] for event in stream[2:]] == ["content_block_start", "content_block_delta", "error"]
    assert stream[-1] == {"type": "error", "error": {"type": "api_error", "message": "the row failed"}}


async def test_a_long_prompt_is_waited_for_with_pings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer, "HEARTBEAT_S", 0.001)
    server, computed = house(), asyncio.Event()

    def script(submit: Submit) -> Iterable[Step]:
        yield computed
        yield Delta(submit.request_id, (65,), cached_tokens=0)
        yield Delta(submit.request_id, (END,), finish="stop")

    server.generation.script = script
    call = Call(server.app, PATH, json.dumps(request(stream=True)).encode())
    async with asyncio.timeout(30):
        while call.body.count(b"event: ping") < 3:
            await asyncio.sleep(0)
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


async def test_a_scheduler_that_is_away_is_a_502() -> None:
    server = house()
    server.generation.described = None
    response = await post(server)
    assert (response.status_code, response.json()["error"]["type"]) == (502, "api_error")
    server.generation.described = description()
    assert (await post(server, tools=[TOOL], tool_choice={"type": "tool", "name": "gone"})).status_code == 400
