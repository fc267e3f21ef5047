import asyncio
import time

from actors.generation.burst import LONGEST_S, Burst
from actors.ids import IngressId

ONE, OTHER = IngressId("one"), IngressId("other")


async def _waited(burst: Burst, worth_s: float) -> float:
    started = time.monotonic()
    await burst.gathered(worth_s)
    return time.monotonic() - started


async def test_a_lone_request_waits_for_nobody() -> None:
    burst = Burst()
    burst.submitted(ONE, 0)
    # Nothing on this path gives the loop a turn, so a task beside it does not even start.
    beside = asyncio.ensure_future(asyncio.sleep(0))
    await burst.gathered(10)
    assert not beside.done()
    await beside


async def test_the_wait_ends_when_the_last_one_has_come() -> None:
    burst = Burst()
    burst.submitted(ONE, 2)
    burst.submitted(OTHER, 1)
    waiting = asyncio.ensure_future(burst.gathered(LONGEST_S))
    burst.submitted(ONE, 0)
    await asyncio.sleep(0)
    assert not waiting.done()
    burst.submitted(OTHER, 0)
    for _ in range(3):
        await asyncio.sleep(0)
    assert waiting.done()


async def test_those_who_never_come_are_waited_for_once_and_not_long() -> None:
    burst = Burst()
    burst.submitted(ONE, 3)
    assert await _waited(burst, 60) >= LONGEST_S
    assert burst.coming == 0


async def test_a_wait_is_as_long_as_it_is_worth() -> None:
    burst = Burst()
    burst.submitted(ONE, 1)
    assert await _waited(burst, 0) < LONGEST_S
    burst.submitted(ONE, 1)
    assert await _waited(burst, 0.01) >= 0.01
