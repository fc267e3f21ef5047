from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from array import array
from pathlib import Path

import pytest

from actors.clock import FakeClock
from actors.ids import EntryId, Incarnation, RequestId
from actors.prompt_cache.actor import INSPECTION_S, PromptCacheManager
from actors.prompt_cache.index import PIN_LEASE_S
from actors.prompt_cache.messages import (
    Discard,
    Entry,
    Lookup,
    Match,
    Publish,
    Published,
    Reconcile,
    Sweep,
    Swept,
    Unpin,
)
from actors.settings import PromptCacheSettings

SCHEDULER = Incarnation("scheduler")
SETTINGS = PromptCacheSettings(max_bytes=100, min_tokens=2)


class Naps:
    """Stands in for `asyncio.sleep`: each nap ends when the test says so."""

    def __init__(self) -> None:
        self.asked: asyncio.Queue[float] = asyncio.Queue()
        self._end = asyncio.Semaphore(0)

    async def sleep(self, seconds: float) -> None:
        self.asked.put_nowait(seconds)
        await self._end.acquire()

    async def end_one(self) -> None:
        """Let the current nap end, and return when the next one has begun."""
        self._end.release()
        await self.asked.get()


def pack(*tokens: int) -> bytes:
    return array("I", tokens).tobytes()


def entry(name: str, *tokens: int, size: int = 10) -> Entry:
    return Entry(EntryId(name), pack(*tokens), size, True)


def publish(stored: Entry) -> Publish:
    return Publish("model", SCHEDULER, stored)


def lookup(*tokens: int, request: str = "r") -> Lookup:
    return Lookup(RequestId(request), "model", SCHEDULER, pack(*tokens))


@pytest.mark.asyncio
async def test_a_published_prefix_is_matched_pinned_and_unpinned() -> None:
    manager = PromptCacheManager(SETTINGS)
    life = manager.incarnation
    assert await manager.publish(publish(entry("a", 1, 2, 3))) == Published(life, ())
    assert await manager.lookup(lookup(1, 2, 3, 4)) == Match(life, EntryId("a"), 3, shared=3)
    assert await manager.lookup(lookup(8, 9, 8)) == Match(life, None, 0)
    assert await manager.publish(publish(entry("b", 1, 2, 3, 4))) == Published(life, ())
    await manager.unpin(Unpin(RequestId("r"), EntryId("a")))
    assert await manager.publish(publish(entry("c", 5, 6, size=101))) == Published(life, (EntryId("a"), EntryId("c")))
    manager.close()


@pytest.mark.asyncio
async def test_reconciling_rebuilds_a_manager_that_began_anew() -> None:
    before, after = PromptCacheManager(SETTINGS), PromptCacheManager(SETTINGS)
    assert before.incarnation != after.incarnation
    answer = await after.reconcile(Reconcile("model", SCHEDULER, (entry("a", 1, 2, 3),)))
    assert answer == Published(after.incarnation, ())
    assert (await after.lookup(lookup(1, 2, 3, 4))).entry == "a"
    after.close()


@pytest.mark.asyncio
async def test_statistics_tell_the_settings_and_what_is_held() -> None:
    manager = PromptCacheManager(SETTINGS)
    await manager.publish(publish(entry("a", 1, 2, 3)))
    now = await manager.statistics()
    assert (now.entries, now.size, now.max_size, now.mailbox_depth) == (1, 10, 100, 1)
    manager.close()


@pytest.mark.asyncio
async def test_the_minimum_of_the_settings_is_kept() -> None:
    manager = PromptCacheManager(SETTINGS)
    assert (await manager.publish(publish(entry("a", 1)))).drop == ("a",)
    manager.close()


@pytest.mark.asyncio
async def test_a_refused_message_leaves_no_trace() -> None:
    manager = PromptCacheManager(SETTINGS)
    with pytest.raises(ValueError, match="whole number"):
        await manager.publish(publish(Entry(EntryId("a"), b"123", 1, True)))
    now = await manager.statistics()
    assert (now.entries, now.mailbox_depth) == (0, 1)
    manager.close()


@pytest.mark.asyncio
async def test_a_sweep_names_idle_entries_and_frees_what_pressure_asks_for() -> None:
    clock = FakeClock()
    manager = PromptCacheManager(SETTINGS, clock)
    await manager.publish(publish(entry("a", 1, 2, 3)))
    await manager.publish(publish(entry("b", 4, 5, 6)))
    clock.advance(SETTINGS.idle_s)
    assert await manager.sweep(Sweep(SCHEDULER, 1)) == Swept(manager.incarnation, (EntryId("a"),), (EntryId("b"),))
    await manager.discard(Discard(SCHEDULER, (EntryId("b"),)))
    assert (await manager.statistics()).entries == 0
    manager.close()


@pytest.mark.asyncio
async def test_a_closed_session_is_forgotten() -> None:
    manager = PromptCacheManager(SETTINGS)
    await manager.publish(publish(Entry(EntryId("a"), pack(1, 2, 3), 10, True, "agent")))
    assert (await manager.statistics()).sessions == 1
    await manager.close_session("agent")
    now = await manager.statistics()
    assert (now.sessions, now.entries) == (0, 1)
    manager.close()


@pytest.mark.asyncio
async def test_forgotten_pins_are_dropped_by_the_inspection(caplog: pytest.LogCaptureFixture) -> None:
    clock, naps = FakeClock(), Naps()
    manager = PromptCacheManager(SETTINGS, clock, naps.sleep)
    await manager.publish(publish(entry("a", 1, 2, 3)))
    await manager.lookup(lookup(1, 2, 3, 4))
    assert await naps.asked.get() == INSPECTION_S
    await naps.end_one()
    assert (await manager.statistics()).pinned == 1
    clock.advance(PIN_LEASE_S)
    with caplog.at_level(logging.WARNING):
        await naps.end_one()
    assert (await manager.statistics()).pinned == 0
    assert "1 pins that nobody ended" in caplog.text
    manager.close()


@pytest.mark.asyncio
async def test_a_broken_index_is_logged_and_begins_a_new_life(caplog: pytest.LogCaptureFixture) -> None:
    naps = Naps()
    manager = PromptCacheManager(SETTINGS, FakeClock(), naps.sleep)
    life = manager.incarnation
    await manager.publish(publish(entry("a", 1, 2, 3)))
    await naps.asked.get()
    (record,) = manager._index._residents
    record.size = 99
    await naps.end_one()
    assert [(line.levelname, "10 bytes are counted, 99 are held" in line.message) for line in caplog.records] == [
        ("CRITICAL", True)
    ]
    assert manager.incarnation != life
    assert await manager.lookup(lookup(1, 2, 3, 4)) == Match(manager.incarnation, None, 0)
    manager.close()


@pytest.mark.asyncio
async def test_a_failing_inspection_is_logged_and_does_not_end_the_inspections(
    caplog: pytest.LogCaptureFixture,
) -> None:
    naps = Naps()
    manager = PromptCacheManager(SETTINGS, FakeClock(), naps.sleep)
    life = manager.incarnation
    await manager.publish(publish(entry("a", 1, 2, 3)))
    await naps.asked.get()
    manager._index._trees.clear()
    del manager._index._residents._records
    await naps.end_one()
    assert "inspection itself failed" in caplog.text
    assert manager.incarnation != life
    await naps.end_one()
    manager.close()


@pytest.mark.asyncio
async def test_closing_ends_the_inspections() -> None:
    naps = Naps()
    manager = PromptCacheManager(SETTINGS, FakeClock(), naps.sleep)
    manager.close()
    await manager.statistics()
    await naps.asked.get()
    inspectors = [task for task in asyncio.all_tasks() if task.get_name() == "prompt-cache-inspector"]
    manager.close()
    manager.close()
    await asyncio.wait(inspectors)
    assert [task.cancelled() for task in inspectors] == [True]


def test_a_manager_can_be_made_without_an_event_loop() -> None:
    manager = PromptCacheManager(SETTINGS)

    async def ask() -> int:
        answer = (await manager.statistics()).entries
        manager.close()
        return answer

    assert asyncio.run(ask()) == 0


def test_the_manager_imports_neither_mlx_nor_numpy() -> None:
    code = "import sys, actors.prompt_cache.actor; print(sorted({'mlx', 'numpy', 'ray'} & set(sys.modules)))"
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
