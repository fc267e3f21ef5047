"""Responses that are resumed, retrieved and deleted."""

from __future__ import annotations

from typing import Any

import pytest

from actors.errors import StoreUnavailable
from actors.ids import RequestId
from actors.responses.messages import Keep, Kept, StoreStatistics, Turn
from tests.routes.harness import House, build, byte_tokenizer, connect, unpack
from tests.routes.reading import hermes
from tests.routes.templates import OPENED

PATH = "/v1/responses"
WEATHER = {"type": "function", "name": "weather"}


@pytest.fixture
def house() -> House:
    return build({"responses": {"ttl_s": 100}}, tokenizer=byte_tokenizer(OPENED))


async def ask(house: House, given: object, previous: dict[str, Any] | None = None, **fields: object) -> dict[str, Any]:
    if previous is not None:
        fields["previous_response_id"] = previous["id"]
    async with connect(house) as client:
        response = await client.post(PATH, json={"input": given, **fields})
    assert response.status_code == 200, response.text
    return response.json()


async def refused(house: House, method: str, path: str, **body: object) -> tuple[int, str]:
    async with connect(house) as client:
        response = await client.request(method, path, json=body or None)
    return response.status_code, response.json()["error"]["message"]


async def get(house: House, path: str) -> dict[str, Any]:
    async with connect(house) as client:
        response = await client.get(path)
    assert response.status_code == 200, response.text
    return response.json()


def prompt(house: House) -> str:
    return house.context.tokenizer.decode(unpack(house.generation.submitted[-1].prompt))


async def test_a_conversation_goes_on_without_the_thinking(house: House) -> None:
    house.says("Hm.</think>", "One.")
    first = await ask(house, "a", instructions="Count.")
    house.says("So.</think>", "Two.")
    second = await ask(house, [{"role": "user", "content": "b"}], first)
    house.says("</think>", "Three.")
    third = await ask(house, "c", second)
    assert prompt(house) == (
        "<|start|>system:Count.<|end|><|start|>user:a<|end|><|start|>assistant:One.<|end|><|start|>user:b<|end|>"
        "<|start|>assistant:Two.<|end|><|start|>user:c<|end|><|start|>assistant:<think>\n"
    )
    assert third["previous_response_id"] == second["id"]
    assert third["instructions"] == "Count."


@pytest.mark.parametrize(("instructions", "said"), [("New.", "<|start|>system:New.<|end|>"), ("", "")])
async def test_new_instructions_take_the_place_of_the_old(house: House, instructions: str, said: str) -> None:
    house.says("</think>One.")
    first = await ask(house, "a", instructions="Old.")
    await ask(house, "b", first, instructions=instructions)
    assert prompt(house).startswith(f"{said}<|start|>user:a<|end|>")
    assert "Old." not in prompt(house)


async def test_results_answer_the_calls_of_the_response_before(house: House) -> None:
    house.says("</think>", hermes("weather", city="Rome"))
    first = await ask(house, "a", tools=[WEATHER])
    (call,) = first["output"]
    house.says("</think>Sunny.")
    await ask(house, [{"type": "function_call_output", "call_id": call["call_id"], "output": "sun"}], first)
    assert "<tool_call>weather city=Rome</tool_call><|end|><|start|>tool:sun<|end|>" in prompt(house)


async def test_two_answers_may_continue_one_response(house: House) -> None:
    house.says("</think>One.")
    first = await ask(house, "a")
    await ask(house, "b", first)
    await ask(house, "c", first)
    assert "user:b" not in prompt(house)
    assert "user:a" in prompt(house)


async def test_a_stream_can_be_continued_as_soon_as_its_end_is_told(house: House) -> None:
    house.says("</think>One.")
    async with connect(house) as client:
        body = (await client.post(PATH, json={"input": "a", "stream": True})).text
    name = house.row.request_id
    assert f'"id":"{name}"' in body
    await ask(house, "b", {"id": name})
    assert "assistant:One." in prompt(house)


async def test_a_response_is_retrieved_as_it_was_sent_and_deleted_once(house: House) -> None:
    house.says("</think>One.")
    first = await ask(house, "a")
    path = f"{PATH}/{first['id']}"
    assert await get(house, path) == first
    async with connect(house) as client:
        deleted = await client.delete(path)
    assert deleted.json() == {"id": first["id"], "object": "response", "deleted": True}
    missing = (404, f"response with id '{first['id']}' not found")
    assert await refused(house, "GET", path) == await refused(house, "DELETE", path) == missing
    assert await refused(house, "GET", f"{path}/input_items") == missing


async def test_what_continues_a_deleted_response_still_knows_it(house: House) -> None:
    house.says("</think>One.")
    first = await ask(house, "a")
    second = await ask(house, "b", first)
    async with connect(house) as client:
        await client.delete(f"{PATH}/{first['id']}")
    await ask(house, "c", second)
    assert "user:a" in prompt(house)


async def test_an_unknown_or_expired_response_is_not_found(house: House) -> None:
    house.says("</think>One.")
    first = await ask(house, "a")
    house.clock.advance(100)
    for name in (first["id"], "resp_never"):
        status, message = await refused(house, "POST", PATH, input="b", previous_response_id=name)
        assert (status, message) == (404, f"previous response with id '{name}' not found")
    assert len(house.generation.submitted) == 1


async def test_what_is_not_to_be_stored_is_not(house: House) -> None:
    house.says("</think>One.")
    first = await ask(house, "a", store=False)
    assert first["store"] is False
    assert (await refused(house, "GET", f"{PATH}/{first['id']}"))[0] == 404


async def test_input_items_are_everything_a_response_was_made_from(house: House) -> None:
    house.says("Hm.</think>One.")
    first = await ask(house, "a")
    second = await ask(
        house, [{"role": "user", "content": "b"}, {"role": "user", "content": "c", "id": "msg_c"}], first
    )
    path = f"{PATH}/{second['id']}/input_items"
    listed = await get(house, f"{path}?order=asc")
    kinds = [(item["type"], item.get("role")) for item in listed["data"]]
    assert kinds == [
        ("message", "user"),
        ("reasoning", None),
        ("message", "assistant"),
        ("message", "user"),
        ("message", "user"),
    ]
    assert (listed["object"], listed["has_more"]) == ("list", False)
    assert listed["data"][0]["content"] == [{"type": "input_text", "text": "a"}]
    newest = await get(house, f"{path}?limit=2")
    assert [item["content"][0]["text"] for item in newest["data"]] == ["c", "b"]
    assert (newest["first_id"], newest["last_id"], newest["has_more"]) == ("msg_c", newest["data"][1]["id"], True)
    rest = await get(house, f"{path}?after={newest['last_id']}")
    assert rest["data"] == listed["data"][2::-1]
    assert rest["has_more"] is False


@pytest.mark.parametrize(
    ("query", "fault"),
    [
        ("limit=0", "limit must be at least 1"),
        ("limit=101", "limit must be at most 100"),
        ("limit=all", "limit must be of type int"),
        ("order=up", "order must be one of 'asc', 'desc'"),
        ("after=msg_x", "after names no item of this response"),
    ],
)
async def test_a_page_that_cannot_be_is_refused(house: House, query: str, fault: str) -> None:
    house.says("</think>One.")
    first = await ask(house, "a")
    assert await refused(house, "GET", f"{PATH}/{first['id']}/input_items?{query}") == (400, fault)


async def test_a_stored_response_is_not_streamed_again(house: House) -> None:
    house.says("</think>One.")
    first = await ask(house, "a")
    status, message = await refused(house, "GET", f"{PATH}/{first['id']}?stream=true")
    assert (status, message) == (400, "a stored response is not streamed again: leave stream out")


async def test_tools_that_came_as_an_item_stay_with_the_conversation(house: House) -> None:
    house.says("</think>One.")
    added = {"type": "additional_tools", "role": "developer", "tools": [WEATHER]}
    first = await ask(house, [added, {"role": "user", "content": "a"}])
    assert first["tools"] == [WEATHER]
    assert (await ask(house, "b", first))["tools"] == [WEATHER]


class Failing:
    """A store that answers some questions."""

    def __init__(self, house: House) -> None:
        self._store = house.context.responses
        self.silent = False
        self.kept: list[tuple[Keep, Kept]] = []

    async def keep(self, message: Keep) -> Kept:
        if self.silent:
            raise StoreUnavailable("the response store does not answer")
        kept = await self._store.keep(message)
        self.kept.append((message, kept))
        return kept

    async def thread(self, response_id: RequestId) -> tuple[Turn, ...] | None:
        if self.silent:
            raise StoreUnavailable("the response store does not answer")
        turns = await self._store.thread(response_id)
        await self._store.forget(response_id)  # gone as soon as it is read
        return turns

    async def statistics(self) -> StoreStatistics:
        return await self._store.statistics()


def replaced(house: House) -> Failing:
    store = Failing(house)
    object.__setattr__(house.context, "responses", store)
    return store


async def test_a_response_whose_past_went_meanwhile_carries_it_all(house: House) -> None:
    store = replaced(house)
    house.says("</think>One.")
    first = await ask(house, "a")
    second = await ask(house, "b", first)
    assert [kept for _, kept in store.kept] == [Kept.STORED, Kept.ORPHANED, Kept.STORED]
    await ask(house, "c", second)
    assert "user:a<|end|><|start|>assistant:One.<|end|><|start|>user:b" in prompt(house)


async def test_an_answer_is_worth_more_than_its_place_in_the_store(house: House) -> None:
    store = replaced(house)
    store.silent = True
    house.says("</think>One.")
    first = await ask(house, "a")
    assert first["status"] == "completed"
    status, message = await refused(house, "POST", PATH, input="b", previous_response_id=first["id"])
    assert (status, message) == (503, "the response store does not answer")


async def test_the_store_is_seen_in_the_statistics(house: House) -> None:
    house.says("</think>One.")
    await ask(house, "a")
    stats = await get(house, "/stats")
    held = stats["troupe"]["response_store"]["size"]
    assert stats["response_store"] == {"entries": 1, "bytes": held, "max_bytes": 32 << 20, "ttl_ms": 100_000}
    assert held > 500
    async with connect(house) as client:
        metrics = (await client.get("/metrics")).text
    assert "troupe_response_store_entries 1.0" in metrics


async def test_a_store_without_room_stores_nothing() -> None:
    house = build({"responses": {"max_bytes": 0}}, tokenizer=byte_tokenizer(OPENED))
    house.says("</think>One.")
    first = await ask(house, "a")
    assert (await refused(house, "GET", f"{PATH}/{first['id']}"))[0] == 404
