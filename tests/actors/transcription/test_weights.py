from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, cast

import pytest

from actors.errors import ModelUnavailable
from actors.models.whisper_card import WhisperCard
from actors.settings import TranscriptionSettings
from actors.transcription.weights import Weights
from tests.support.ledger import Ledger
from tests.support.waiting import until
from tests.support.whisper import tiny_whisper


class Engine:
    """Does what it is told when it is told to."""

    def __init__(self) -> None:
        self.line: list[tuple[Callable[[], object], Future[None]]] = []
        self.decoder: object = None

    def replace(self, work: Callable[[], object]) -> Future[None]:
        self.line.append((work, Future()))
        return self.line[-1][1]

    def go(self) -> None:
        for work, future in self.line:
            self.decoder = work()
            future.set_result(None)
        self.line.clear()


class House:
    def __init__(self, card: WhisperCard | None, **settings: Any) -> None:
        self.engine, self.lease, self.busy = Engine(), Ledger(), False
        self.weights = Weights(
            TranscriptionSettings(**settings),
            card,
            cast(Any, self.engine),
            cast(Any, self.lease),
            lambda: self.busy,
        )

    async def load(self) -> float:
        loading = asyncio.ensure_future(self.weights.ready())
        await until(lambda: bool(self.engine.line))
        self.engine.go()
        return await loading


@pytest.fixture
def card(tmp_path: Path) -> WhisperCard:
    return tiny_whisper(tmp_path)


async def test_a_model_that_is_nowhere_is_unavailable_in_words() -> None:
    with pytest.raises(ModelUnavailable, match=r"no folder /nowhere.*set transcription\.model"):
        await House(None, model="/nowhere").weights.ready()


async def test_weights_are_loaded_once_and_booked(card: WhisperCard) -> None:
    house = House(card)
    assert await house.load() > 0
    assert await house.weights.ready() == 0
    assert house.lease.booked == {"weights": house.weights.size}
    assert (house.weights.tally.loads, house.engine.decoder is not None) == (1, True)


async def test_loading_goes_on_when_the_one_who_waits_leaves(card: WhisperCard) -> None:
    house = House(card)
    first = asyncio.ensure_future(house.weights.ready())
    await until(lambda: bool(house.engine.line))
    first.cancel()
    second = asyncio.ensure_future(house.weights.ready())
    await asyncio.wait({first})
    house.engine.go()
    assert await second > 0
    assert house.weights.tally.loads == 1


async def test_weights_that_do_not_fit_are_refused(card: WhisperCard) -> None:
    house = House(card)
    house.lease.budget = 10
    with pytest.raises(ModelUnavailable, match="does not fit: there is no room"):
        await house.weights.ready()
    house.lease.budget = 10**9
    assert await house.load() > 0


async def test_a_damaged_checkpoint_is_unavailable_and_leaves_no_booking(card: WhisperCard) -> None:
    house = House(card)
    card.weights.write_bytes(b"nothing")
    loading = asyncio.ensure_future(house.weights.ready())
    await until(lambda: bool(house.engine.line))
    work, future = house.engine.line[0]
    try:
        work()
    except Exception as error:
        future.set_exception(error)
    with pytest.raises(ModelUnavailable, match="cannot be loaded"):
        await loading
    assert house.lease.booked == {}


async def test_weights_in_use_stay(card: WhisperCard) -> None:
    house = House(card)
    await house.load()
    house.busy = True
    assert await house.weights.unload() is False
    assert house.weights.size > 0


async def test_idle_weights_are_given_up(card: WhisperCard) -> None:
    house = House(card, idle_unload_s=0.0)
    await house.load()
    with house.weights.used():
        assert house.engine.line == []
    await until(lambda: bool(house.engine.line))
    house.engine.go()
    await until(lambda: house.weights.size == 0)
    assert (house.lease.booked, house.engine.decoder, house.weights.tally.unloads) == ({}, None, 1)


async def test_resident_weights_are_never_idle(card: WhisperCard) -> None:
    house = House(card, idle_unload_s=0.0, resident=True)
    await house.load()
    with house.weights.used():
        pass
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert house.engine.line == []
    assert await asyncio.gather(house.weights.ready()) == [0.0]
