from __future__ import annotations

import asyncio
import logging

import pytest

from actors.errors import StartError
from actors.gpu_lease import booking
from tests.support.ledger import Ledger


async def thirty() -> int:
    return 30


async def test_what_the_weights_have_become_is_booked() -> None:
    ledger = Ledger(100)
    assert await booking.load(ledger, "m", 20, thirty) == 30
    assert ledger.booked == {"weights": 30}


async def test_weights_without_room_are_not_loaded() -> None:
    async def load() -> int:
        raise AssertionError("it was loaded")

    with pytest.raises(StartError, match=r"^m does not fit: there is no room$"):
        await booking.load(Ledger(10), "m", 20, load)


async def test_weights_that_have_grown_beyond_the_budget_stay_and_are_spoken_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ledger = Ledger(25)
    with caplog.at_level(logging.WARNING):
        assert await booking.load(ledger, "m", 20, thirty) == 30
    assert ledger.booked == {"weights": 20}
    assert "m takes more memory than was booked: there is no room" in caplog.text


async def test_a_load_that_fails_or_is_given_up_leaves_no_booking() -> None:
    async def fail() -> int:
        raise ValueError("damaged")

    ledger = Ledger(100)
    with pytest.raises(ValueError, match="damaged"):
        await booking.load(ledger, "m", 20, fail)
    assert ledger.booked == {}

    begun = asyncio.Event()

    async def wait() -> int:
        begun.set()
        await asyncio.Event().wait()
        return 0

    loading = asyncio.ensure_future(booking.load(ledger, "m", 20, wait))
    await begun.wait()
    assert ledger.booked == {"weights": 20}
    loading.cancel()
    await asyncio.wait({loading})
    assert ledger.booked == {}
