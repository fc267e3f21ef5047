from __future__ import annotations

import asyncio

from actors.open_requests import OpenRequests


async def test_draining_waits_for_the_last_one() -> None:
    requests = OpenRequests()
    with requests.counted():
        with requests.counted():
            assert len(requests) == 2
            draining = asyncio.ensure_future(requests.drain())
            await asyncio.sleep(0)
            assert requests.closed
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not draining.done()
    await draining
    assert len(requests) == 0


async def test_draining_an_idle_one_returns_at_once() -> None:
    requests = OpenRequests()
    assert not requests.closed
    await requests.drain()
    assert requests.closed
