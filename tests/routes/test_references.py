"""Input items that only name an output item of an earlier response, as Vercel's SDK sends them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.routes.harness import House, build, byte_tokenizer, connect
from tests.routes.reading import hermes
from tests.routes.responding import PATH, last_prompt, post, whole
from tests.routes.templates import OPENED

USER = {"role": "user", "content": [{"type": "input_text", "text": "a"}]}
WEATHER = {"type": "function", "name": "weather"}


@pytest.fixture
def house() -> House:
    return build({"responses": {"ttl_s": 100}}, tokenizer=byte_tokenizer(OPENED))


def reference(item: dict[str, Any]) -> dict[str, object]:
    return {"type": "item_reference", "id": item["id"]}


async def called(house: House) -> dict[str, Any]:
    """A response with thinking, text and a call."""
    house.says("Hm.</think>", "I look.", hermes("weather", city="Rome"))
    return await whole(house, [USER], tools=[WEATHER])


async def test_references_are_read_as_what_they_name(house: House) -> None:
    output = (await called(house))["output"]
    result = {"type": "function_call_output", "call_id": output[2]["call_id"], "output": "sun"}
    house.says("</think>Sunny.")
    await whole(house, [USER, *map(reference, output), result], tools=[WEATHER])
    named = last_prompt(house)
    await whole(house, [USER, *output, result], tools=[WEATHER])
    assert named == last_prompt(house)
    assert "I look.<tool_call>weather city=Rome</tool_call><|end|><|start|>tool:sun" in named


async def test_what_was_named_is_stored_as_itself(house: House) -> None:
    first = await called(house)
    house.says("</think>Sunny.")
    second = await whole(house, [USER, reference(first["output"][1])])
    async with connect(house) as client:
        await client.delete(f"{PATH}/{first['id']}")
        listed = (await client.get(f"{PATH}/{second['id']}/input_items", params={"order": "asc"})).json()["data"]
    assert listed[1] == first["output"][1]
    await whole(house, "b", previous_response_id=second["id"])
    assert "assistant:I look.<|end|><|start|>assistant:Sunny.<|end|><|start|>user:b" in last_prompt(house)


async def test_what_the_past_has_is_not_said_twice(house: House) -> None:
    first = await called(house)
    house.says("</think>Sunny.")
    call = first["output"][2]
    given = [reference(call), {"type": "function_call_output", "call_id": call["call_id"], "output": "sun"}]
    await whole(house, given, previous_response_id=first["id"])
    assert last_prompt(house).count("<tool_call>weather") == 1


async def test_references_may_name_items_of_several_responses(house: House) -> None:
    house.says("</think>One.")
    first = await whole(house, "a")
    house.says("</think>Two.")
    second = await whole(house, "b")
    await whole(house, [reference(second["output"][0]), reference(first["output"][0]), USER])
    assert last_prompt(house).startswith("<|start|>assistant:Two.<|end|><|start|>assistant:One.<|end|><|start|>user:a")


@pytest.mark.parametrize("kept", ["never", "deleted", "not stored", "too long ago"])
async def test_what_is_not_known_is_said_by_its_id(house: House, kept: str) -> None:
    house.says("</think>One.")
    first = await whole(house, "a", store=kept != "not stored")
    name = "msg_unknown" if kept == "never" else first["output"][0]["id"]
    if kept == "deleted":
        async with connect(house) as client:
            await client.delete(f"{PATH}/{first['id']}")
    if kept == "too long ago":
        house.clock.advance(101)
    response = await post(house, [USER, {"type": "item_reference", "id": name}])
    assert response.status_code == 404
    error = response.json()["error"]
    assert error["message"] == f"item with id '{name}' not found, or not any more: send the item itself"
    assert error["type"] == "invalid_request_error"
    assert len(house.generation.submitted) == 1
