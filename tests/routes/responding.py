"""Asking for responses over a scripted scheduler, and checking the frame of a stream."""

from __future__ import annotations

import json
from typing import Any

import httpx

from tests.routes.harness import House, connect, unpack

PATH = "/v1/responses"


async def post(house: House, given: object = "hi", **fields: object) -> httpx.Response:
    async with connect(house) as client:
        return await client.post(PATH, json={"input": given, **fields})


async def whole(house: House, given: object = "hi", **fields: object) -> dict[str, Any]:
    response = await post(house, given, **fields)
    assert response.status_code == 200, response.text
    return response.json()


async def streamed(house: House, given: object = "hi", **fields: object) -> list[dict[str, Any]]:
    """The events of a stream, whose frame is checked: names, numbers, and ids that stay."""
    response = await post(house, given, stream=True, **fields)
    assert response.status_code == 200, response.text
    return events(response.text)


def events(body: str) -> list[dict[str, Any]]:
    frames = body.split("\n\n")
    assert frames.pop() == ""
    found: list[dict[str, Any]] = []
    for frame in frames:
        if frame.startswith(":"):
            continue
        name, data = frame.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        found.append(event)
    assert [event["sequence_number"] for event in found] == list(range(len(found)))
    items: dict[int, str] = {}
    for event in found:
        if event["type"] == "response.output_item.added":
            assert event["output_index"] == len(items)
            items[event["output_index"]] = event["item"]["id"]
        if "output_index" in event:
            assert event.get("item_id", event.get("item", {}).get("id")) == items[event["output_index"]]
    assert [item["id"] for item in found[-1]["response"]["output"]] == list(items.values())
    assert len({event["response"]["id"] for event in found if "response" in event}) == 1
    return found


def kinds(found: list[dict[str, Any]]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in found]


def anonymous(response: dict[str, Any]) -> dict[str, Any]:
    """A response without what is different each time."""
    items = [{**item, "id": "", "call_id": ""} for item in response["output"]]
    return {**response, "id": "", "created_at": 0, "output": items}


def last_prompt(house: House) -> str:
    return house.context.tokenizer.decode(unpack(house.generation.submitted[-1].prompt))
