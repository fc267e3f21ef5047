import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from actors.clock import FakeClock
from actors.errors import QueueFull, ShuttingDown
from routes.preparation import Preparation
from tests.routes.call import turns


@pytest.fixture
async def gate() -> AsyncIterator[threading.Event]:
    """Opened at the end of a test, so that no thread outlives it."""
    event = threading.Event()
    yield event
    event.set()


async def test_work_runs_in_another_thread_and_its_result_comes_back() -> None:
    preparation = Preparation(1, 1)
    assert await preparation.run(threading.get_ident) != threading.get_ident()
    await turns()
    assert preparation.statistics().prepared == 1


async def test_an_error_of_the_work_comes_back_and_frees_the_thread() -> None:
    preparation = Preparation(1, 1)
    with pytest.raises(ZeroDivisionError):
        await preparation.run(lambda: 1 // 0)
    assert await preparation.run(lambda: 2) == 2


async def test_one_more_than_the_line_holds_is_refused(gate: threading.Event) -> None:
    clock = FakeClock()
    preparation = Preparation(1, 2, clock)
    tasks = [asyncio.ensure_future(preparation.run(gate.wait)) for _ in range(3)]
    await turns()
    clock.advance(5)
    with pytest.raises(QueueFull):
        await preparation.run(gate.wait)
    figures = preparation.statistics()
    assert (figures.preparing, figures.waiting, figures.oldest_wait_s, figures.refused) == (1, 2, 5.0, 1)
    gate.set()
    assert await asyncio.gather(*tasks) == [True, True, True]
    assert await preparation.run(lambda: "again") == "again"


async def test_leaving_the_line_gives_the_place_up_at_once(gate: threading.Event) -> None:
    preparation = Preparation(1, 1)
    running = asyncio.ensure_future(preparation.run(gate.wait))
    waiting = asyncio.ensure_future(preparation.run(gate.wait))
    await turns()
    waiting.cancel()
    await turns()
    assert preparation.statistics().waiting == 0
    successor = asyncio.ensure_future(preparation.run(lambda: "served"))
    await turns()
    gate.set()
    assert await successor == "served"
    assert await running is True


async def test_leaving_while_the_work_runs_keeps_the_thread_taken_until_it_ends(gate: threading.Event) -> None:
    preparation = Preparation(1, 1)
    running = asyncio.ensure_future(preparation.run(gate.wait))
    await turns()
    running.cancel()
    await turns()
    assert running.cancelled()
    assert preparation.statistics().preparing == 1
    successor = asyncio.ensure_future(preparation.run(lambda: "served"))
    await turns()
    assert preparation.statistics().waiting == 1
    gate.set()
    assert await successor == "served"


async def test_a_thread_handed_to_somebody_who_just_left_goes_to_the_next(gate: threading.Event) -> None:
    preparation = Preparation(1, 2)
    running = asyncio.ensure_future(preparation.run(gate.wait))
    leaving = asyncio.ensure_future(preparation.run(gate.wait))
    next_one = asyncio.ensure_future(preparation.run(lambda: "served"))
    await turns()
    preparation._pass_on()  # the hand-over itself, with no turn of the loop before the cancellation
    leaving.cancel()
    gate.set()
    assert await next_one == "served"
    assert await running is True
    assert leaving.cancelled()


async def test_after_closing_nothing_is_prepared() -> None:
    preparation = Preparation(1, 1)
    preparation.close()
    with pytest.raises(ShuttingDown):
        await preparation.run(lambda: 1)
    assert preparation.statistics().preparing == 0
