"""A scheduler's dealings with a real manager, without an engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from actors.clock import FakeClock
from actors.generation.actor import pack
from actors.generation.housekeeping import LEAST_DEMOTION_S, Housekeeping
from actors.generation.memory import Memory
from actors.generation.messages import Sampling, Submit
from actors.generation.prefixes import Prefixes
from actors.ids import EntryId, Incarnation, IngressId, RequestId
from actors.prompt_cache.actor import PromptCacheManager
from actors.prompt_cache.messages import Discard, Entry
from actors.settings import PromptCacheSettings
from tests.support.company import Handle

SETTINGS = PromptCacheSettings(max_bytes=1000, min_tokens=1, idle_s=300, pressure=0.85)
ROOM = Memory(50, 100)


class Desk:
    """A scheduler's side and the manager it talks to."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.manager = PromptCacheManager(SETTINGS, self.clock)
        self.dropped: list[str] = []
        self.durable: set[str] = set()
        self.memory = ROOM
        self.prefixes = Prefixes(Handle(self.manager), Incarnation("one"), "model", True, self.dropped.append)
        self.housekeeping = self.keep_house(lambda entry: entry.entry in self.durable)

    def keep_house(self, durable: object) -> Housekeeping:
        return Housekeeping(self.prefixes, SETTINGS, durable, lambda: self.memory, self.clock)  # type: ignore[arg-type]

    async def publish(self, name: str, tokens: list[int], partition: str = "") -> None:
        self.prefixes.publish(Entry(EntryId(name), pack(tokens), 10, True, None, (), partition))
        await self.settled()

    async def settled(self) -> None:
        while self.prefixes._tasks:
            await asyncio.gather(*self.prefixes._tasks)
            await asyncio.sleep(0)

    async def start_of(self, tokens: list[int], partition: str = "") -> tuple[str | None, int]:
        request = Submit(RequestId("r"), IngressId("i"), pack(tokens), 1, Sampling(), partition=partition)
        match = await self.prefixes.lookup(request, tokens)
        await self.settled()
        assert match is not None
        return match.entry, match.length

    async def entries(self) -> int:
        return (await self.manager.statistics()).entries


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    made = Desk()
    yield made
    made.manager.close()


async def test_idle_prefixes_leave_once_they_are_durable(desk: Desk) -> None:
    await desk.publish("old", [1, 2])
    await desk.publish("unwritten", [3, 4])
    desk.durable = {"old", "young"}
    desk.clock.advance(300)
    await desk.publish("young", [5, 6])
    await desk.housekeeping.look()
    assert desk.dropped == ["old"]
    assert await desk.entries() == 2
    assert (await desk.manager.statistics()).demotions == 1
    desk.durable.add("unwritten")
    await desk.housekeeping.look()
    assert desk.dropped == ["old"], "it has just been looked for"
    desk.clock.advance(max(LEAST_DEMOTION_S, SETTINGS.idle_s / 4))
    await desk.housekeeping.look()
    assert desk.dropped == ["old", "unwritten"]


async def test_nothing_idle_leaves_where_nothing_is_ever_durable(desk: Desk) -> None:
    await desk.publish("old", [1, 2])
    desk.clock.advance(10_000)
    await desk.keep_house(None).look()
    assert desk.dropped == []


async def test_memory_that_runs_short_costs_as_many_prefixes_as_it_takes(desk: Desk) -> None:
    for number in range(4):
        await desk.publish(f"entry{number}", [number, 7])
    desk.memory = Memory(100, 100)
    await desk.keep_house(None).look()
    assert desk.dropped == ["entry0", "entry1"], "15 bytes are short, and each frees 10"
    desk.memory = ROOM
    await desk.keep_house(None).look()
    assert await desk.entries() == 2
    assert (await desk.manager.statistics()).reclaimed == 20


async def test_memory_is_not_even_measured_for_an_empty_shelf(desk: Desk) -> None:
    def never() -> Memory:
        raise AssertionError("nobody should ask")

    await Housekeeping(desk.prefixes, SETTINGS, None, never, desk.clock).look()


async def test_looking_around_survives_whatever_goes_wrong(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    naps = 0

    async def nap(seconds: float) -> None:
        nonlocal naps
        naps += 1
        if naps > 2:
            raise EOFError

    def broken() -> Memory:
        raise OSError("no meter")

    await desk.publish("entry", [1, 2])
    house = Housekeeping(desk.prefixes, SETTINGS, None, broken, desk.clock, nap)
    with pytest.raises(EOFError):
        await house.run()
    assert caplog.text.count("could not be looked after") == 2


async def test_a_prefix_that_the_manager_still_believes_in_is_no_match_and_is_forgotten(desk: Desk) -> None:
    await desk.publish("entry", [1, 2])
    assert await desk.start_of([1, 2, 3]) == ("entry", 2)
    desk.prefixes._forget(EntryId("entry"))
    assert await desk.start_of([1, 2, 3]) == (None, 0)
    assert await desk.entries() == 0


async def test_partitions_survive_a_restart_of_the_manager(desk: Desk) -> None:
    await desk.publish("mine", [1, 2], partition="one")
    await desk.publish("theirs", [1, 2], partition="two")
    desk.manager._begin()
    assert await desk.start_of([1, 2, 3]) == (None, 0)
    assert await desk.start_of([1, 2, 3], partition="one") == ("mine", 2)
    assert await desk.start_of([1, 2, 3], partition="two") == ("theirs", 2)


async def test_a_discard_may_be_repeated(desk: Desk) -> None:
    await desk.publish("entry", [1, 2])
    for _ in range(2):
        await desk.manager.discard(Discard(Incarnation("one"), (EntryId("entry"),)))
    assert await desk.entries() == 0
