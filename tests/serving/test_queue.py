"""What happens at a door with few places."""

from __future__ import annotations

import asyncio

import httpx

from tests.support.talk import CHAT, ENDLESS, chat_body, streaming, until_rows


async def test_one_more_than_may_wait_is_refused_and_comes_in_later(visitor: httpx.AsyncClient) -> None:
    async with streaming(visitor, ENDLESS) as first, streaming(visitor, ENDLESS) as second:
        assert await first.piece()
        assert await second.piece()
        line = [asyncio.create_task(visitor.post(CHAT, json=chat_body("next", max_tokens=1))) for _ in range(3)]
        await until_rows(visitor, active_rows=2, waiting_rows=3)
        for stream in (False, True):
            refused = await visitor.post(CHAT, json=chat_body("too many", max_tokens=1, stream=stream))
            assert refused.status_code == 429
            error = refused.json()["error"]
            assert (error["type"], error["code"]) == ("resource_admission", "queue_full")
            assert refused.headers["retry-after"] == "1"
        assert await first.piece()
    answers = await asyncio.gather(*line)
    assert [answer.status_code for answer in answers] == [200] * 3
    later = await visitor.post(CHAT, json=chat_body("too many", max_tokens=1))
    assert later.status_code == 200
