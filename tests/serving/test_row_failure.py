"""A row whose computation raises ends alone."""

from __future__ import annotations

import asyncio

import httpx
import openai
import pytest

from tests.support.server import Server
from tests.support.talk import BAD_TOKEN, CHAT, CHOKES, ENDLESS, KEY, chat_body, say, scheduler, streaming


async def test_a_row_that_raises_ends_with_a_500_and_its_neighbour_goes_on(visitor: httpx.AsyncClient) -> None:
    alone = await say(visitor, ENDLESS, max_tokens=400)
    before = await scheduler(visitor)
    async with streaming(visitor, ENDLESS, max_tokens=400) as neighbour:
        assert await neighbour.piece()
        failed = await visitor.post(CHAT, json=chat_body(f"eat this: {BAD_TOKEN}", max_tokens=5))
        assert await neighbour.read() == alone
    assert neighbour.finish == "length"
    assert failed.status_code == 500
    assert failed.json() == {"error": {"message": "generation failed: this token is poison"}}
    after = await scheduler(visitor)
    assert after["failed_rows"] - before["failed_rows"] == 1


async def test_a_row_that_raises_in_mid_stream_says_so_and_its_neighbour_goes_on(visitor: httpx.AsyncClient) -> None:
    alone = await say(visitor, ENDLESS, max_tokens=800)
    async with streaming(visitor, ENDLESS, max_tokens=800) as neighbour:
        assert await neighbour.piece()
        async with streaming(visitor, CHOKES) as stream:
            assert await stream.read()
        assert await neighbour.read() == alone
    assert stream.error == {"message": "generation failed: this token is poison"}
    assert stream.finish is None
    assert (neighbour.finish, neighbour.error) == ("length", None)


async def test_many_rows_that_raise_at_once_leave_the_server_well(visitor: httpx.AsyncClient) -> None:
    bodies = [chat_body(f"{number} {BAD_TOKEN if number % 2 else 'fine'}", max_tokens=3) for number in range(5)]
    answers = await asyncio.gather(*(visitor.post(CHAT, json=body) for body in bodies))
    assert [answer.status_code for answer in answers] == [200, 500, 200, 500, 200]
    assert await say(visitor, "still here?", max_tokens=3)


async def test_the_sdk_raises_what_ended_a_stream(small: Server) -> None:
    async with openai.AsyncOpenAI(base_url=f"{small.url}/v1", api_key=KEY, max_retries=0) as client:
        with pytest.raises(openai.APIError, match="this token is poison"):
            stream = await client.chat.completions.create(
                model="any", messages=[{"role": "user", "content": BAD_TOKEN}], stream=True
            )
            async for _ in stream:
                continue
