import pytest

from tests.routes.harness import build, connect, events

PATH = "/v1/completions"


async def test_the_prompt_is_continued_as_it_is() -> None:
    house = build()
    house.says(" time", cached=3)
    async with connect(house) as client:
        response = await client.post(PATH, json={"prompt": "Once upon a", "max_tokens": 7, "temperature": 0})
    answer = response.json()
    assert answer.pop("created") > 1_600_000_000
    assert answer == {
        "id": house.row.request_id,
        "object": "text_completion",
        "model": "org/tiny",
        "choices": [{"index": 0, "text": " time", "finish_reason": "stop"}],
        "usage": {
            "prompt_tokens": 11,
            "completion_tokens": 6,
            "total_tokens": 17,
            "prompt_tokens_details": {"cached_tokens": 3},
            "lane": "batched",
        },
    }
    assert answer["id"].startswith("cmpl-")
    assert house.prompt == "Once upon a"
    assert (house.row.max_tokens, house.row.sampling.temperature) == (7, 0)


async def test_a_stream_carries_text_then_finish_and_usage() -> None:
    house = build()
    house.says("a", "b", finish="length")
    async with connect(house) as client:
        chunks = events((await client.post(PATH, json={"prompt": "x", "stream": True})).text)
    assert [chunk["choices"][0]["text"] for chunk in chunks] == ["a", "b", ""]
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None, None, "length"]
    assert {chunk["object"] for chunk in chunks} == {"text_completion"}
    assert chunks[-1]["usage"]["total_tokens"] == 3


@pytest.mark.parametrize("prompt", [None, "", [], ["a"], [1, 2], 5, {}, True])
async def test_only_a_string_with_something_in_it_is_a_prompt(prompt: object) -> None:
    house = build()
    async with connect(house) as client:
        response = await client.post(PATH, json={"prompt": prompt})
    assert response.status_code == 400
    assert response.json()["error"]["message"] == "prompt must be a non-empty string"


async def test_a_missing_prompt_is_refused() -> None:
    async with connect(build()) as client:
        assert (await client.post(PATH, json={})).status_code == 400


async def test_session_headers_reach_the_row() -> None:
    house = build()
    house.says("x")
    async with connect(house) as client:
        await client.post(PATH, json={"prompt": "x"}, headers={"x-session-affinity": "talk"})
    assert house.row.session == "talk"
