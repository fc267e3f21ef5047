from __future__ import annotations

import asyncio

import pytest

from actors.errors import QueueFull
from actors.transcription.budget import AudioBudget


class Kept:
    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes


async def taken(budget: AudioBudget, raw: bool) -> bool:
    try:
        async with budget.taking(raw):
            return True
    except QueueFull:
        return False


async def test_what_is_counted_is_what_is_kept_now() -> None:
    budget, clip = AudioBudget(100, 1), Kept(60)
    with budget.counted(clip), budget.counted(Kept(30)):
        assert budget.used == 90 and not budget.full
        clip.nbytes = 70
        assert budget.full
    assert budget.used == 0


async def test_clips_wait_in_their_order_until_there_is_room() -> None:
    budget, order = AudioBudget(100, 2), list[int]()

    async def decode(number: int, release: asyncio.Event) -> None:
        async with budget.decoding():
            order.append(number)
            clip = budget.counted(Kept(100))
            clip.__enter__()
        await release.wait()
        clip.__exit__(None, None, None)

    releases = [asyncio.Event() for _ in range(4)]
    clips = []
    for number, release in enumerate(releases):
        clips.append(asyncio.create_task(decode(number, release)))
        await asyncio.sleep(0)
    for number, release in enumerate(releases):
        await asyncio.sleep(0.01)
        assert order == list(range(number + 1))
        release.set()
    await asyncio.gather(*clips)


async def test_a_chunk_waits_for_no_clip() -> None:
    budget, first = AudioBudget(100, 1), asyncio.Event()

    async def decode(wait: asyncio.Event | None) -> None:
        async with budget.decoding():
            if wait is not None:
                await wait.wait()

    clips = [asyncio.create_task(decode(first)), asyncio.create_task(decode(None))]
    await asyncio.sleep(0.01)
    assert await asyncio.wait_for(taken(budget, raw=False), 1.0)
    with budget.counted(Kept(100)):
        first.set()
        await asyncio.sleep(0.01)
        assert (clips[0].done(), clips[1].done()) == (True, False)
        assert not await asyncio.wait_for(taken(budget, raw=False), 1.0)
    await asyncio.wait_for(clips[1], 1.0)


async def test_a_clip_whose_client_leaves_gives_its_turn_to_the_next() -> None:
    budget = AudioBudget(100, 1)

    async def decode() -> None:
        async with budget.decoding():
            pass

    with budget.counted(Kept(100)):
        first, second = asyncio.create_task(decode()), asyncio.create_task(decode())
        await asyncio.sleep(0.01)
        first.cancel()
        await asyncio.wait({first})
        assert not second.done()
    await asyncio.wait_for(second, 1.0)


async def test_room_that_a_clip_gives_up_bit_by_bit_is_noticed() -> None:
    budget, clip = AudioBudget(100, 1), Kept(100)

    async def decode() -> None:
        async with budget.decoding():
            pass

    with budget.counted(clip):
        waiting = asyncio.create_task(decode())
        await asyncio.sleep(0.01)
        assert not waiting.done()
        clip.nbytes = 99
        budget.changed()
        await asyncio.wait_for(waiting, 1.0)


@pytest.mark.parametrize("raw", [True, False])
async def test_chunks_are_refused_at_once_even_behind_clips_that_wait(raw: bool) -> None:
    budget = AudioBudget(100, 1)

    async def decode() -> None:
        async with budget.decoding():
            pass

    assert await taken(budget, raw)
    with budget.counted(Kept(100)):
        waiting = asyncio.create_task(decode())
        await asyncio.sleep(0.01)
        assert not await asyncio.wait_for(taken(budget, raw), 1.0)
    await asyncio.wait_for(waiting, 1.0)
    assert await taken(budget, raw)
