from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import msgspec
import pytest

from actors.clock import FakeClock
from actors.errors import ServiceError
from actors.gpu_lease.actor import GpuLease
from actors.gpu_lease.journal import Journal, Record
from actors.gpu_lease.lease import Holding
from actors.gpu_lease.messages import (
    Acquire,
    Contention,
    Grant,
    Release,
    Reserve,
    Reserved,
    Unreserve,
    Withdraw,
    Yield,
)
from actors.gpu_lease.process import Process
from actors.settings import LeaseSettings


class Machine:
    """A lease actor that can be restarted, and the processes it believes to see."""

    def __init__(self, journal: Path, liveness_ms: float = 1.0) -> None:
        self.clock = FakeClock()
        self.dead: set[int] = set()
        self.checks = 0
        self.journal = journal
        self.settings = LeaseSettings(liveness_ms=liveness_ms, memory_budget=100)
        self.lease = self._life()

    def restart(self) -> None:
        self.lease.close()
        self.lease = self._life()

    def _life(self) -> GpuLease:
        return GpuLease(self.settings, self.journal, clock=self.clock, alive=self._alive)

    def _alive(self, process: Process) -> bool:
        self.checks += 1
        return process.pid not in self.dead


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path / "lease-1.json")
    yield machine
    machine.lease.close()


def ask(name: str, attempt: int = 1) -> Acquire:
    return Acquire(name, "interactive", pid=ord(name), started=1.0, attempt=attempt)


async def parked(call: asyncio.Task[Grant | None]) -> asyncio.Task[Grant | None]:
    """Let a call run until it waits."""
    for _ in range(3):
        await asyncio.sleep(0)
    assert not call.done()
    return call


async def test_a_free_lease_is_granted_at_once_and_written_down(machine: Machine) -> None:
    grant = await machine.lease.acquire(ask("a"))
    assert grant is not None
    assert grant == Grant("a", 1, 1)
    record = msgspec.json.decode(machine.journal.read_bytes(), type=Record)
    assert record.holding == Holding(grant, ask("a"))


async def test_the_next_waiter_is_granted_when_the_holder_releases(machine: Machine) -> None:
    first = await machine.lease.acquire(ask("a"))
    assert first is not None
    second = await parked(asyncio.create_task(machine.lease.acquire(ask("b"))))
    await machine.lease.release(Release(first, 0.0))
    assert await second == Grant("b", 1, 2)


async def test_a_released_lease_leaves_no_suspect_behind(machine: Machine) -> None:
    grant = await machine.lease.acquire(ask("a"))
    assert grant is not None
    await machine.lease.release(Release(grant, 0.0))
    machine.restart()
    assert await machine.lease.acquire(ask("b")) == Grant("b", 2, 1)


async def test_contended_parks_until_somebody_waits(machine: Machine) -> None:
    grant = await machine.lease.acquire(ask("a"))
    assert grant is not None
    contended = asyncio.create_task(machine.lease.contended(grant))
    await asyncio.sleep(0)
    assert not contended.done()
    machine.clock.advance(0.04)
    waiter = await parked(asyncio.create_task(machine.lease.acquire(ask("b"))))
    assert await contended == Contention("waiter", cast(float, pytest.approx(0.06)))
    yielding = asyncio.create_task(machine.lease.yield_(Yield(grant, 0.04)))
    second = await waiter
    assert second is not None
    await parked(yielding)
    await machine.lease.release(Release(second, 0.0))
    assert await yielding == Grant("a", 1, 3)
    assert await machine.lease.contended(grant) == Contention("void")


async def test_a_stale_yield_says_so(machine: Machine) -> None:
    assert await machine.lease.yield_(Yield(Grant("a", 1, 1), 0.0)) is None


async def test_a_dead_holder_is_noticed_and_a_dead_waiter_is_passed_over(machine: Machine) -> None:
    assert await machine.lease.acquire(ask("a")) is not None
    dead = await parked(asyncio.create_task(machine.lease.acquire(ask("b"))))
    waiter = await parked(asyncio.create_task(machine.lease.acquire(ask("c"))))
    machine.dead = {ord("a"), ord("b")}
    async with asyncio.timeout(10):
        assert await waiter == Grant("c", 1, 2)
        assert await dead is None
    assert (await machine.lease.statistics()).deaths == 1


async def test_nothing_is_checked_while_nobody_holds_waits_or_books(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "lease-1.json", liveness_ms=1.0)
    await machine.lease.reserve(Reserve("a", "weights", 10, ord("a"), 1.0))
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    assert len(tasks) == 1, "the liveness check"
    await machine.lease.unreserve(Unreserve("a", "weights"))
    async with asyncio.timeout(10):
        await asyncio.wait(tasks)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    machine.lease.close()


async def test_a_restarted_actor_grants_nothing_until_the_old_holder_comes_back(machine: Machine) -> None:
    assert await machine.lease.acquire(ask("a")) is not None
    machine.restart()
    waiter = await parked(asyncio.create_task(machine.lease.acquire(ask("b"))))
    assert (await machine.lease.statistics()).epoch == 2
    again = asyncio.create_task(machine.lease.acquire(ask("a", attempt=2)))
    assert await waiter == Grant("b", 2, 1)
    await machine.lease.release(Release(Grant("b", 2, 1), 0.0))
    assert await again == Grant("a", 2, 2)


async def test_a_suspect_survives_several_restarts(machine: Machine) -> None:
    old = await machine.lease.acquire(ask("a"))
    assert old is not None
    machine.restart()
    machine.restart()
    waiter = await parked(asyncio.create_task(machine.lease.acquire(ask("b"))))
    await machine.lease.release(Release(old, 0.0))
    assert await waiter == Grant("b", 3, 1)


async def test_a_suspect_that_died_meanwhile_holds_nobody_up(machine: Machine) -> None:
    assert await machine.lease.acquire(ask("a")) is not None
    machine.dead = {ord("a")}
    machine.restart()
    assert await machine.lease.acquire(ask("b")) == Grant("b", 2, 1)


async def test_a_newer_request_takes_the_place_of_an_older_one(machine: Machine) -> None:
    holder = await machine.lease.acquire(ask("a"))
    assert holder is not None
    older = await parked(asyncio.create_task(machine.lease.acquire(ask("b", attempt=1))))
    newer = await parked(asyncio.create_task(machine.lease.acquire(ask("b", attempt=2))))
    assert await older is None
    assert await machine.lease.acquire(ask("b", attempt=1)) is None
    await machine.lease.release(Release(holder, 0.0))
    assert await newer == Grant("b", 1, 2)


async def test_a_withdrawn_request_is_answered_and_a_withdrawn_grant_goes_on(machine: Machine) -> None:
    assert await machine.lease.acquire(ask("a")) is not None
    gone = await parked(asyncio.create_task(machine.lease.acquire(ask("b"))))
    waiter = await parked(asyncio.create_task(machine.lease.acquire(ask("c"))))
    await machine.lease.withdraw(Withdraw("b", ord("b"), 1.0, 1))
    assert await gone is None
    await machine.lease.withdraw(Withdraw("a", ord("a"), 1.0, 1))
    assert await waiter == Grant("c", 1, 2)


async def test_a_cancelled_call_takes_its_request_back(machine: Machine) -> None:
    holder = await machine.lease.acquire(ask("a"))
    assert holder is not None
    cancelled = await parked(asyncio.create_task(machine.lease.acquire(ask("b"))))
    waiter = await parked(asyncio.create_task(machine.lease.acquire(ask("c"))))
    await machine.lease.release(Release(holder, 0.0))
    cancelled.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await cancelled
    assert await waiter == Grant("c", 1, 3), "b's grant was under way and came back"


async def test_no_grant_goes_out_that_could_not_be_written_down(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Journal, record: Record) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "write", full)
        with pytest.raises(ServiceError, match="No space left"):
            await machine.lease.acquire(ask("a"))
    assert await machine.lease.acquire(ask("b")) == Grant("b", 1, 2)


async def test_bookings_outlive_the_actor_and_end_with_their_process(machine: Machine) -> None:
    assert await machine.lease.reserve(Reserve("a", "weights", 80, ord("a"), 1.0)) == Reserved(True, "")
    machine.restart()
    refused = await machine.lease.reserve(Reserve("b", "weights", 30, ord("b"), 1.0))
    assert not refused.granted and "80 bytes for weights of a" in refused.reason
    machine.dead = {ord("a")}
    async with asyncio.timeout(10):
        while (await machine.lease.statistics()).reserved_bytes:
            await asyncio.sleep(0)
    assert (await machine.lease.reserve(Reserve("b", "weights", 30, ord("b"), 1.0))).granted


async def test_statistics_tell_who_holds_and_who_waits(machine: Machine) -> None:
    assert await machine.lease.acquire(ask("a")) is not None
    waiter = await parked(asyncio.create_task(machine.lease.acquire(ask("b"))))
    machine.clock.advance(2.0)
    state = await machine.lease.statistics()
    assert (state.epoch, state.holder, state.held_s, state.mailbox_depth) == (1, "a", 2.0, 1)
    assert state.classes["interactive"].waiting == 1
    assert state.classes["interactive"].oldest_wait_s == 2.0
    assert (state.reserved_bytes, state.budget_bytes) == (0, 100)
    waiter.cancel()
    await asyncio.wait({waiter})
    assert (await machine.lease.statistics()).mailbox_depth == 0


def test_without_a_budget_the_ledger_takes_three_quarters_of_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Memory:
        total = 1000

    monkeypatch.setattr("psutil.virtual_memory", Memory)
    lease = GpuLease(LeaseSettings(), tmp_path / "lease-1.json")
    assert asyncio.run(lease.statistics()).budget_bytes == 750
    lease.close()
