import asyncio
import json

from tests.routes.call import Call
from tests.routes.harness import build, chat, connect


async def test_health_is_the_expected_bytes() -> None:
    async with connect(build()) as client:
        response = await client.get("/health")
    assert (response.status_code, response.content) == (200, b'{"status": "ok"}')


async def test_a_busy_server_is_well() -> None:
    house = build()
    house.generation.script = lambda row: [asyncio.Event()]
    request = Call(house.app, "/v1/chat/completions", json.dumps(chat()).encode())
    await house.generation.entered.wait()
    async with connect(house) as client:
        assert (await client.get("/health")).status_code == 200
    request.leave()
    await request.task


async def test_a_server_without_its_scheduler_is_not_well() -> None:
    house = build()
    house.generation.down = True
    async with connect(house) as client:
        response = await client.get("/health")
    assert (response.status_code, response.json()["error"]["type"]) == (503, "engine_unavailable")


async def test_a_stopping_server_is_not_well() -> None:
    house = build()
    house.context.gate.close()
    async with connect(house) as client:
        response = await client.get("/health")
    assert (response.status_code, response.json()["error"]["type"]) == (503, "shutting_down")
