"""Actors killed in the middle of their work: what clients see, and that the others go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import httpx
import openai
import psutil
import pytest

from tests.support.server import Server, run_server
from tests.support.talk import CHAT, chat_body, say, scheduler, statistics, streaming, until_rows
from tests.support.waiting import eventually

STORY = "Write a very long story about a lighthouse and the people who lived there."
CAPITAL = "What is the capital of France?"
ANSWER = "The capital of France is Paris."


@pytest.fixture(scope="module")
def fragile() -> Iterator[Server]:
    with run_server() as running:
        yield running


@pytest.fixture
async def http(fragile: Server) -> AsyncIterator[httpx.AsyncClient]:
    async with fragile.http() as http:
        yield http


def kill(server: Server, actor: str) -> psutil.Process:
    """SIGKILL: no farewell, no clean-up."""
    process = server.actor(actor)
    process.kill()
    return process


async def replaced(server: Server, actor: str, dead: psutil.Process) -> psutil.Process:
    """The process that follows a dead one."""

    async def found() -> psutil.Process | None:
        return next((process for process in server.actors(actor) if process.pid != dead.pid), None)

    return await eventually(found)


async def test_the_death_of_the_scheduler_ends_its_requests_in_words_and_the_next_one_is_answered(
    fragile: Server, http: httpx.AsyncClient
) -> None:
    async with fragile.async_client() as client, streaming(http, STORY, max_tokens=1000) as stream:
        whole = asyncio.create_task(http.post(CHAT, json=chat_body(STORY + " Begin.", max_tokens=1000)))
        library: Any = await client.chat.completions.create(
            model="any", messages=[{"role": "user", "content": STORY}], max_tokens=1000, stream=True
        )
        assert await stream.piece()
        await until_rows(http, active_rows=3)
        dead = kill(fragile, "GenerationScheduler")
        await stream.read()
        with pytest.raises(openai.APIError, match="died while it served this request"):
            async for _ in library:
                continue
        refused = await whole
    assert stream.error is not None
    assert stream.error["type"] == "engine_unavailable"
    assert stream.finish is None
    assert refused.status_code == 502
    assert refused.json()["error"]["type"] == "engine_unavailable"
    assert await say(http, CAPITAL) == ANSWER
    assert (await replaced(fragile, "GenerationScheduler", dead)).is_running()
    assert (await scheduler(http))["submitted_rows"] == 1


async def test_the_death_of_the_prompt_cache_manager_is_not_noticed(fragile: Server, http: httpx.AsyncClient) -> None:
    alone = await say(http, STORY, max_tokens=40)
    async with streaming(http, STORY, max_tokens=40) as stream:
        assert await stream.piece()
        dead = kill(fragile, "PromptCacheManager")
        assert await say(http, CAPITAL) == ANSWER
        assert await stream.read() == alone
    await replaced(fragile, "PromptCacheManager", dead)

    async def remembered() -> bool:
        reply = await http.post(CHAT, json=chat_body("Name a colour of the rainbow.", max_tokens=1))
        assert reply.status_code == 200
        return reply.json()["usage"]["prompt_tokens_details"]["cached_tokens"] > 20

    assert await eventually(remembered)


async def test_the_death_of_the_lease_is_not_noticed(fragile: Server, http: httpx.AsyncClient) -> None:
    alone = await say(http, STORY, max_tokens=40)
    epoch = (await statistics(http))["lease"]["epoch"]
    async with streaming(http, STORY, max_tokens=40) as stream:
        assert await stream.piece()
        dead = kill(fragile, "ray::GpuLease")
        assert await stream.read() == alone
    assert await say(http, CAPITAL) == ANSWER
    await replaced(fragile, "ray::GpuLease", dead)

    async def reigns() -> bool:
        lease = (await statistics(http))["lease"]
        return lease is not None and lease["epoch"] > epoch

    assert await eventually(reigns)
    assert await say(http, CAPITAL) == ANSWER


async def test_the_death_of_an_ingress_ends_its_rows_and_another_one_takes_its_place(
    fragile: Server, http: httpx.AsyncClient
) -> None:
    before = await scheduler(http)
    with pytest.raises(httpx.RemoteProtocolError):
        async with streaming(http, STORY, max_tokens=1000) as stream:
            assert await stream.piece()
            kill(fragile, "troupe:Ingress")
            await stream.read()

    async def open_again() -> bool:
        try:
            return (await http.get("/health")).status_code == 200
        except httpx.TransportError:
            return False

    assert await eventually(open_again)
    await until_rows(http, active_rows=0, cancelled_rows=before["cancelled_rows"] + 1)
    assert await say(http, CAPITAL) == ANSWER


async def test_a_response_can_be_continued_after_the_death_of_the_ingress_that_gave_it(
    fragile: Server, http: httpx.AsyncClient
) -> None:
    first = (await http.post("/v1/responses", json={"input": CAPITAL, "temperature": 0})).json()
    dead = kill(fragile, "troupe:Ingress")

    async def continued() -> dict[str, Any] | None:
        body = {"input": "So?", "previous_response_id": first["id"], "temperature": 0, "max_output_tokens": 4}
        try:
            reply = await http.post("/v1/responses", json=body)
        except httpx.TransportError:
            return None
        assert reply.status_code == 200, reply.text
        return reply.json()

    second = await eventually(continued)
    assert (await replaced(fragile, "troupe:Ingress", dead)).is_running()
    assert second["usage"]["input_tokens"] > first["usage"]["total_tokens"]
    assert second["usage"]["input_tokens_details"]["cached_tokens"] >= first["usage"]["input_tokens"]
    assert (await http.get(f"/v1/responses/{first['id']}")).json() == first


async def test_the_death_of_the_response_store_costs_its_responses_and_nothing_else(
    fragile: Server, http: httpx.AsyncClient
) -> None:
    first = (await http.post("/v1/responses", json={"input": CAPITAL, "temperature": 0})).json()
    dead = kill(fragile, "ResponseStore")
    answered = await http.post("/v1/responses", json={"input": CAPITAL, "temperature": 0})
    assert answered.json()["output"][0]["content"][0]["text"] == ANSWER
    await replaced(fragile, "ResponseStore", dead)

    async def forgotten() -> bool:
        status = (await http.get(f"/v1/responses/{first['id']}")).status_code
        assert status in (404, 503)
        return status == 404

    assert await eventually(forgotten)


async def down(http: httpx.AsyncClient) -> bool:
    return (await statistics(http))["scheduler"] is None


async def test_a_request_that_comes_while_the_scheduler_restarts_waits_for_it(
    fragile: Server, http: httpx.AsyncClient
) -> None:
    dead = kill(fragile, "GenerationScheduler")
    assert await eventually(partial(down, http))
    assert await say(http, CAPITAL) == ANSWER
    assert (await replaced(fragile, "GenerationScheduler", dead)).is_running()


async def test_the_server_is_not_healthy_while_its_scheduler_is_down(fragile: Server, http: httpx.AsyncClient) -> None:
    kill(fragile, "GenerationScheduler")
    assert await eventually(partial(down, http))
    health = await http.get("/health")
    assert await say(http, CAPITAL) == ANSWER
    recovered = await http.get("/health")
    assert (health.status_code, recovered.status_code) == (503, 200)
    assert health.json()["error"]["type"] == "engine_unavailable"
