"""Rows that end while somebody else's long prompt is computed: the pass for the prompt must not cost them their end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from tests.support import checkpoints
from tests.support.server import run_server
from tests.support.talk import CHAT, chat_body, say, scheduler, streaming, until_rows

LONG = "The lighthouse keeper counted the boats that day. " * 700
CAPITAL = "What is the capital of France?"
ANSWER = "The capital of France is Paris."
PATIENCE_S = 60.0


@pytest.fixture
async def quick(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """At the door of a tiny model, where rows come and go hundreds of times a minute."""
    with run_server({"model": str(checkpoints.tiny_llama(tmp_path / "tiny"))}) as running:
        async with running.http() as http:
            yield http


@pytest.fixture
async def prompt(http: httpx.AsyncClient) -> AsyncIterator[None]:
    """While the test runs, the engine computes somebody's prompt."""
    await say(http, CAPITAL)
    somebody = asyncio.create_task(http.post(CHAT, json=chat_body(LONG, max_tokens=1)))
    await until_rows(http, prefilling_rows=1)
    yield
    still = (await scheduler(http))["prefilling_rows"]
    somebody.cancel()
    await asyncio.wait([somebody])
    await until_rows(http, active_rows=0, prefilling_rows=0, waiting_rows=0)
    assert still == 1


@pytest.mark.usefixtures("prompt")
async def test_an_answer_that_ends_beside_a_prompt_ends_for_its_client(http: httpx.AsyncClient) -> None:
    async with asyncio.timeout(PATIENCE_S), streaming(http, CAPITAL) as stream:
        assert await stream.read() == ANSWER
    assert (stream.finish, stream.ended) == ("stop", True)


@pytest.mark.usefixtures("prompt")
@pytest.mark.parametrize("limit", [1, 3])
async def test_max_tokens_is_exact_beside_a_prompt(http: httpx.AsyncClient, limit: int) -> None:
    before = await scheduler(http)
    async with asyncio.timeout(PATIENCE_S):
        answer = (await http.post(CHAT, json=chat_body(CAPITAL, max_tokens=limit))).json()
    after = await scheduler(http)
    assert answer["usage"]["completion_tokens"] == limit
    assert answer["choices"][0]["finish_reason"] == "length"
    assert after["generated_tokens"] - before["generated_tokens"] == limit
    assert after["finished_rows"] - before["finished_rows"] == 1


@pytest.mark.parametrize("piece", range(4, 8))
async def test_an_answer_ends_for_its_client_whenever_a_newcomer_arrives(http: httpx.AsyncClient, piece: int) -> None:
    for round_ in range(3):
        # Words of its own, so that nothing but the template's start is cached.
        question = f"{piece} {round_} boats and {round_} lamps. " * 8
        async with asyncio.timeout(PATIENCE_S), streaming(http, CAPITAL) as stream:
            for _ in range(piece):
                await stream.piece()
            newcomer = asyncio.create_task(http.post(CHAT, json=chat_body(question, max_tokens=1)))
            assert await stream.read() == ANSWER
            assert (await newcomer).status_code == 200
        assert (stream.finish, stream.ended) == ("stop", True)


async def test_max_tokens_is_exact_however_rows_come_and_go(quick: httpx.AsyncClient) -> None:
    before = await scheduler(quick)

    async def visits(first: int) -> list[tuple[int, int]]:
        counts = []
        for number in range(first, first + 40):
            limit = 2 + number % 5
            answer = await quick.post(CHAT, json=chat_body(f"{number} boats", max_tokens=limit))
            assert answer.status_code == 200, answer.text
            counts.append((limit, answer.json()["usage"]["completion_tokens"]))
        return counts

    counts = [count for visit in await asyncio.gather(*map(visits, (0, 100, 200, 300))) for count in visit]
    after = await scheduler(quick)
    assert [count for count in counts if count[0] != count[1]] == []
    assert after["finished_rows"] - before["finished_rows"] == len(counts)
