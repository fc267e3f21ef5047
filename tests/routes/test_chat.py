import asyncio
import threading

import pytest

from actors.errors import EngineUnavailable, GenerationFailed, QueueFull, ShuttingDown
from actors.generation.messages import Delta
from tests.routes.harness import build, chat, connect, events, unpack
from tests.routes.scripted_generation import description

PATH = "/v1/chat/completions"


async def test_a_whole_answer_has_text_finish_and_usage() -> None:
    house = build()
    house.says("Hel", "lo", cached=4)
    async with connect(house) as client:
        response = await client.post(PATH, json=chat("hé"))
    answer = response.json()
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert answer.pop("created") > 1_600_000_000
    assert answer == {
        "id": house.row.request_id,
        "object": "chat.completion",
        "model": "org/tiny",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}],
        "usage": {
            "prompt_tokens": len(house.row.prompt) // 4,
            "completion_tokens": 6,
            "total_tokens": len(house.row.prompt) // 4 + 6,
            "prompt_tokens_details": {"cached_tokens": 4},
            "lane": "batched",
        },
    }
    assert answer["id"].startswith("chatcmpl-")
    assert response.headers["x-request-id"] == answer["id"]
    assert house.prompt == "<|start|>user:hé<|end|><|start|>assistant:"
    assert house.generation.cancelled == []


async def test_a_stream_opens_with_the_role_and_closes_with_finish_and_usage() -> None:
    house = build()
    house.says("a", "é😀", cached=2)
    async with connect(house) as client:
        response = await client.post(PATH, json=chat(stream=True, stream_options={"include_usage": 5}))
    first, *middle, last = events(response.text)
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert first["object"] == "chat.completion.chunk"
    assert first["choices"] == [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]
    assert [chunk["choices"][0]["delta"] for chunk in middle] == [{"content": "a"}, {"content": "é😀"}]
    assert last["choices"] == [{"index": 0, "delta": {}, "finish_reason": "stop"}]
    assert last["usage"]["completion_tokens"] == 8
    assert last["usage"]["prompt_tokens_details"] == {"cached_tokens": 2}
    assert {chunk["id"] for chunk in (first, *middle, last)} == {house.row.request_id}
    assert not any("usage" in chunk for chunk in (first, *middle))


async def test_stop_strings_end_both_kinds_of_answer_alike_and_cancel_the_row() -> None:
    house = build()
    house.says("one #", "#", "# two", finish="length")
    async with connect(house) as client:
        whole = (await client.post(PATH, json=chat(stop=["###", "zzz"]))).json()
        stream = events((await client.post(PATH, json=chat(stop="###", stream=True))).text)
    streamed = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in stream)
    assert whole["choices"][0]["message"]["content"] == streamed == "one "
    assert whole["choices"][0]["finish_reason"] == stream[-1]["choices"][0]["finish_reason"] == "stop"
    assert whole["usage"]["completion_tokens"] == stream[-1]["usage"]["completion_tokens"] == 7
    assert house.generation.cancelled == [row.request_id for row in house.generation.submitted]


async def test_an_answer_cut_by_max_tokens_finishes_with_length() -> None:
    house = build()
    house.says("abc", finish="length")
    async with connect(house) as client:
        answer = (await client.post(PATH, json=chat(max_tokens=3))).json()
    assert answer["choices"][0]["finish_reason"] == "length"
    assert (house.row.max_tokens, answer["usage"]["completion_tokens"]) == (3, 3)


@pytest.mark.parametrize(
    ("changes", "lane"),
    [({}, "batched"), ({"max_rows": 1}, "serial"), ({"batchable": False}, "serial")],
)
async def test_usage_names_the_lane(changes: dict[str, object], lane: str) -> None:
    house = build()
    house.generation.described = description(**changes)
    house.says("x")
    async with connect(house) as client:
        answer = (await client.post(PATH, json=chat())).json()
    assert answer["usage"]["lane"] == lane


async def test_the_fields_of_a_request_reach_its_row() -> None:
    house = build()
    house.says("x")
    body = chat(
        temperature=0.25,
        top_p=0.5,
        top_k=4.0,
        min_p=0.1,
        seed=-1,
        max_tokens=9,
        max_completion_tokens=5,
        session_id="s",
    )
    async with connect(house) as client:
        assert (await client.post(PATH, json=body)).status_code == 200
    sampling = house.row.sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k, sampling.min_p) == (0.25, 0.5, 4, 0.1)
    assert sampling.seed == 2**64 - 1
    assert (house.row.max_tokens, house.row.session, house.row.ingress) == (5, "s", "ingress-test")


async def test_defaults_come_from_the_settings_then_from_the_card() -> None:
    house = build({"generation": {"temperature": 0.2, "max_tokens": 11}}, {"temperature": 0.9, "top_k": 20})
    house.says("x")
    async with connect(house) as client:
        await client.post(PATH, json=chat(temperature=None, max_tokens=None, top_k=None, stop=None, seed=None))
    assert (house.row.sampling.temperature, house.row.sampling.top_k, house.row.max_tokens) == (0.2, 20, 11)


async def test_template_variables_and_effort_reach_the_template() -> None:
    house = build()
    house.says("x")
    async with connect(house) as client:
        await client.post(PATH, json=chat(reasoning_effort="none"))
        await client.post(PATH, json=chat(reasoning_effort="none", chat_template_kwargs={"enable_thinking": True}))
        await client.post(PATH, json=chat(chat_template_kwargs={"enable_thinking": False}))
    prompts = [house.context.tokenizer.decode(unpack(row.prompt)) for row in house.generation.submitted]
    assert ["[quick]" in prompt for prompt in prompts] == [True, False, True]


async def test_a_template_error_is_a_400() -> None:
    house = build()
    async with connect(house) as client:
        response = await client.post(PATH, json={"messages": [{"role": "tool", "content": "x"}]})
    assert response.status_code == 400
    assert response.json()["error"]["message"] == "prompt build failed: a tool needs an id"


async def test_a_prompt_beyond_the_context_is_refused_with_its_code() -> None:
    house = build()
    house.generation.described = description(context_limit=20)
    async with connect(house) as client:
        response = await client.post(PATH, json=chat("x" * 100))
    assert response.status_code == 400
    error = response.json()["error"]
    assert (error["type"], error["code"]) == ("memory_admission", "context_over_budget")
    assert "20 tokens" in error["message"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("refusal", "status", "error"),
    [
        (
            QueueFull("64 rows are waiting"),
            429,
            {"message": "64 rows are waiting", "type": "resource_admission", "code": "queue_full"},
        ),
        (EngineUnavailable("gone"), 502, {"message": "gone", "type": "engine_unavailable"}),
        (ShuttingDown("stopping"), 503, {"message": "stopping", "type": "shutting_down"}),
    ],
)
async def test_a_refused_row_is_an_http_error_even_for_a_stream(
    refusal: Exception, status: int, error: dict[str, str], stream: bool
) -> None:
    house = build()
    house.generation.refusal = refusal
    async with connect(house) as client:
        response = await client.post(PATH, json=chat(stream=stream))
    assert (response.status_code, response.json()) == (status, {"error": error})
    assert response.headers.get("retry-after") == ("1" if status == 429 else None)


async def test_a_scheduler_that_is_down_answers_502_before_anything_is_prepared() -> None:
    house = build()
    house.generation.described = None
    async with connect(house) as client:
        response = await client.post(PATH, json=chat())
    assert response.status_code == 502
    assert house.context.preparation.statistics().prepared == 0


async def test_a_failed_row_is_a_500_with_its_message_alone() -> None:
    house = build()
    house.generation.script = lambda row: [Delta(row.request_id, (65,)), GenerationFailed("the row failed")]
    async with connect(house) as client:
        response = await client.post(PATH, json=chat())
    assert (response.status_code, response.json()) == (500, {"error": {"message": "the row failed"}})


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (GenerationFailed("the row failed"), {"message": "the row failed"}),
        (EngineUnavailable("it died"), {"message": "it died", "type": "engine_unavailable"}),
        (RuntimeError("secret path"), {"message": "internal server error"}),
    ],
)
async def test_an_error_inside_a_stream_is_its_last_event(error: Exception, told: dict[str, str]) -> None:
    house = build()
    letter = tuple(house.context.tokenizer.encode("A"))
    house.generation.script = lambda row: [Delta(row.request_id, letter), error]
    async with connect(house) as client:
        response = await client.post(PATH, json=chat(stream=True))
    frames = response.text.split("\n\n")
    assert response.status_code == 200
    assert '"content":"A"' in frames[1]
    assert frames[2:] == ["data: " + str({"error": told}).replace("'", '"').replace(": ", ":").replace(", ", ","), ""]


async def test_an_answer_that_breaks_off_without_a_finish_is_an_error() -> None:
    house = build()
    house.generation.script = lambda row: [Delta(row.request_id, (65,))]
    async with connect(house) as client:
        response = await client.post(PATH, json=chat())
    assert response.status_code == 500
    assert response.json()["error"]["message"] == "the answer ended without a finish"


async def test_a_stopping_server_takes_no_more_requests() -> None:
    house = build()
    house.context.gate.close()
    async with connect(house) as client:
        response = await client.post(PATH, json=chat())
    assert (response.status_code, response.json()["error"]["type"]) == (503, "shutting_down")
    assert house.generation.submitted == []


async def test_a_body_beyond_the_limit_is_a_413() -> None:
    house = build({"server": {"max_body_bytes": 200}})
    async with connect(house) as client:
        response = await client.post(PATH, json=chat("x" * 200))
    assert response.status_code == 413
    assert response.json()["error"] == {"message": "the body is longer than 200 bytes", "type": "invalid_request_error"}


async def test_a_delta_of_several_tokens_is_one_write() -> None:
    house = build()
    house.says("many tokens at once")
    async with connect(house) as client:
        response = await client.post(PATH, json=chat(stream=True))
    assert len(events(response.text)) == 3


async def test_a_row_says_how_many_others_are_being_prepared() -> None:
    house, gate = build(), threading.Event()
    house.says("well")
    threads = house.context.settings.ingress.preparation_threads
    held = [asyncio.ensure_future(house.context.preparation.run(gate.wait)) for _ in range(threads)]
    async with connect(house) as client:
        asked = [asyncio.ensure_future(client.post(PATH, json=chat(str(number)))) for number in range(3)]
        while house.context.preparation.statistics().waiting < 3:
            await asyncio.sleep(0)
        gate.set()
        answers = await asyncio.gather(*asked)
        assert (await client.post(PATH, json=chat())).status_code == 200
    assert all(await asyncio.gather(*held)) and all(answer.status_code == 200 for answer in answers)
    *burst, alone = [submit.coming for submit in house.generation.submitted]
    assert (sorted(burst), alone) == ([0, 1, 2], 0)
