"""A client that leaves frees its row, whatever the row was doing."""

from __future__ import annotations

import asyncio

import httpx

from tests.support.talk import CHAT, ENDLESS, chat_body, say, scheduler, streaming, until_rows
from tests.support.waiting import eventually

STORY = "Write a very long story about a lighthouse and the people who lived there."
LONG = "The lighthouse keeper counted the waves that night. " * 500
NOBODY = {"active_rows": 0, "prefilling_rows": 0, "waiting_rows": 0}


async def leave(task: asyncio.Task[httpx.Response]) -> None:
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


async def test_a_streaming_client_that_leaves_frees_its_row(http: httpx.AsyncClient) -> None:
    before = await scheduler(http)
    async with streaming(http, STORY, max_tokens=1000) as stream:
        for _ in range(3):
            assert await stream.piece()
    after = await until_rows(http, cancelled_rows=before["cancelled_rows"] + 1, **NOBODY)
    assert after["generated_tokens"] - before["generated_tokens"] < 500
    await say(http, "Hello!", max_tokens=5)
    then = await scheduler(http)
    assert then["generated_tokens"] - after["generated_tokens"] == 5


async def test_a_client_that_waits_for_a_whole_answer_and_leaves_frees_its_row(http: httpx.AsyncClient) -> None:
    before = await scheduler(http)
    task = asyncio.create_task(http.post(CHAT, json=chat_body(STORY, max_tokens=1000)))
    await until_rows(http, active_rows=1)
    await leave(task)
    after = await until_rows(http, cancelled_rows=before["cancelled_rows"] + 1, **NOBODY)
    assert after["generated_tokens"] - before["generated_tokens"] < 500


async def test_a_client_that_leaves_during_its_prefill_frees_its_row(http: httpx.AsyncClient) -> None:
    before = await scheduler(http)
    task = asyncio.create_task(http.post(CHAT, json=chat_body(LONG, max_tokens=1)))
    await until_rows(http, prefilling_rows=1)
    await leave(task)
    after = await until_rows(http, cancelled_rows=before["cancelled_rows"] + 1, **NOBODY)
    assert after["prompt_tokens"] - before["prompt_tokens"] < 5000
    assert after["finished_rows"] == before["finished_rows"]


async def test_a_client_that_leaves_the_line_gives_up_its_place(visitor: httpx.AsyncClient) -> None:
    before = await scheduler(visitor)
    async with streaming(visitor, ENDLESS) as first, streaming(visitor, ENDLESS) as second:
        assert await first.piece()
        assert await second.piece()
        # Two rows run, two more may stand by at the engine, one stands in the line.
        line = []
        for waiting in (1, 2, 3):
            line.append(asyncio.create_task(visitor.post(CHAT, json=chat_body(f"number {waiting}"))))
            await until_rows(visitor, active_rows=2, waiting_rows=waiting)
        for place, task in enumerate(reversed(line)):
            await leave(task)
            await until_rows(visitor, active_rows=2, waiting_rows=2 - place)
        assert await first.piece()
        assert await second.piece()
    after = await until_rows(visitor, **NOBODY)
    assert after["cancelled_rows"] - before["cancelled_rows"] == 5
    assert after["submitted_rows"] - before["submitted_rows"] == 5


async def test_a_row_that_left_is_counted_at_the_door(http: httpx.AsyncClient) -> None:
    async def door() -> dict[str, int]:
        return (await http.get("/stats")).json()["troupe"]["ingress"]

    before = await door()
    async with streaming(http, STORY, max_tokens=1000) as stream:
        assert await stream.piece()
        assert (await door())["streams"] == before["streams"] + 1

    async def gone() -> bool:
        now = await door()
        return now["gone"] == before["gone"] + 1 and now["open_requests"] == 0

    assert await eventually(gone)
