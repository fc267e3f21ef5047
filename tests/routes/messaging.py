"""Asking for messages over a scripted scheduler, and putting the events of a stream together."""

from __future__ import annotations

import json
from typing import Any

import httpx

from tests.routes.harness import House, build, byte_tokenizer, connect
from tests.routes.reading import hermes
from tests.routes.templates import THINK

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
