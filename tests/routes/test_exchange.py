import asyncio
import json
import logging
from typing import Any

import pytest

from actors.errors import GenerationFailed
from actors.generation.messages import Delta
from tests.routes.call import Call
from tests.routes.harness import build, chat, connect

PATH = "/v1/chat/completions"


@pytest.fixture
def access(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "troupe.access")
    return caplog


def only_line(access: pytest.LogCaptureFixture) -> dict[str, Any]:
    (record,) = [record for record in access.records if record.name == "troupe.access"]
    return record.__dict__["troupe"]


async def test_a_finished_request_is_one_line_with_its_figures(access: pytest.LogCaptureFixture) -> None:
    house = build()

    def script(row: Any) -> Any:
        house.clock.advance(1.5)
        yield Delta(row.request_id, cached_tokens=2)
        house.clock.advance(2)
        yield Delta(row.request_id, (65, 256), finish="stop")

    house.generation.script = script
    async with connect(house) as client:
        response = await client.post(PATH, json=chat())
    figures = only_line(access)
    assert figures == {
        "request_id": response.headers["x-request-id"],
        "method": "POST",
        "route": PATH,
        "status": 200,
        "prompt_tokens": len(house.row.prompt) // 4,
        "cached_tokens": 2,
        "completion_tokens": 2,
        "prepared_s": 0.0,
        "first_token_s": 1.5,
        "total_s": 3.5,
    }
    assert f"status=200 prompt_tokens={figures['prompt_tokens']}" in access.text


async def test_every_response_has_an_id_of_its_own(access: pytest.LogCaptureFixture) -> None:
    async with connect(build()) as client:
        ids = {(await client.get(path)).headers["x-request-id"] for path in ("/health", "/nope", "/v1")}
    assert len(ids) == 3


async def test_a_client_that_left_is_logged_as_499(access: pytest.LogCaptureFixture) -> None:
    house = build()
    house.generation.script = lambda row: [asyncio.Event()]
    request = Call(house.app, PATH, json.dumps(chat()).encode())
    await house.generation.entered.wait()
    request.leave()
    await request.task
    figures = only_line(access)
    assert (figures["status"], figures["error"], figures["completion_tokens"]) == (499, "ClientGone", 0)


async def test_an_error_inside_a_stream_is_in_its_line(access: pytest.LogCaptureFixture) -> None:
    house = build()
    house.generation.script = lambda row: [GenerationFailed("broken")]
    async with connect(house) as client:
        await client.post(PATH, json=chat(stream=True))
    figures = only_line(access)
    assert (figures["status"], figures["error"]) == (200, "GenerationFailed")


async def test_an_unexpected_error_keeps_its_words_to_the_log(access: pytest.LogCaptureFixture) -> None:
    house = build()
    house.generation.refusal = RuntimeError("secret path")
    async with connect(house) as client:
        response = await client.post(PATH, json=chat())
    assert (response.status_code, response.json()) == (500, {"error": {"message": "internal server error"}})
    assert response.headers["x-request-id"] == only_line(access)["request_id"]
    (record,) = [record for record in access.records if record.name == "troupe.routes"]
    assert response.headers["x-request-id"] in record.getMessage()
    assert record.exc_info is not None
    assert "secret path" in str(record.exc_info[1])


async def test_a_path_cannot_forge_a_line(access: pytest.LogCaptureFixture) -> None:
    async with connect(build()) as client:
        await client.get("/x%0Astatus=200%20y")
    (record,) = [record for record in access.records if record.name == "troupe.access"]
    assert "\n" not in record.getMessage()
    assert "route='/x\\nstatus=200 y'" in record.getMessage()
