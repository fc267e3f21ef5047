from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from ray.exceptions import ActorDiedError, ActorUnavailableError

from actors.clock import FakeClock
from actors.errors import ShuttingDown
from actors.gpu_lease.actor import GpuLease
from actors.gpu_lease.holder import LeaseHolder
from actors.gpu_lease.messages import Acquire, Grant, LeaseClass
from actors.gpu_lease.process import Process, this_process
from actors.settings import LeaseSettings
from tests.support.waiting import until


class Method:
    def __init__(self, stage: Stage, name: str) -> None:
        self._stage = stage
        self._name = name

    def remote(self, message: object) -> asyncio.Future[Any]:
        return self._stage.call(self._name, message)


class Stage:
    """A lease actor in this process, called like one in another, that can be killed and brought back."""

    def __init__(self, journal: Path) -> None:
        self.clock = FakeClock()
        self.calls: list[str] = []
        self.connections = 0
        self.loop = asyncio.get_running_loop()
        self._journal = journal
        self._lease: GpuLease | None = None
        self._open: set[asyncio.Task[Any]] = set()
        self._error: Exception = ActorUnavailableError("restarting", None)
        self.start()

    def __getattr__(self, name: str) -> Method:
        return Method(self, name)

    def connect(self) -> Stage:
        self.connections += 1
        return self

    def start(self) -> None:
        def alive(process: Process) -> bool:
            return True

        settings = LeaseSettings(slice_ms=100.0, memory_budget=100)
        self._lease = GpuLease(settings, self._journal, clock=self.clock, alive=alive)

    def kill(self, error: Exception | None = None) -> None:
        assert self._lease is not None
        self._error = error or ActorUnavailableError("restarting", None)
        self._lease.close()
        self._lease = None
        for task in self._open:
            task.cancel()

    async def call_now(self, name: str, *message: object) -> Any:
        return await getattr(self._lease, name)(*message)

    def call(self, name: str, message: object) -> asyncio.Future[Any]:
        self.calls.append(name)
        return asyncio.ensure_future(self._answer(name, message))

    async def _answer(self, name: str, message: object) -> Any:
        if self._lease is None:
            raise self._error
        method: Callable[[object], Coroutine[Any, Any, Any]] = getattr(self._lease, name)
        task = asyncio.create_task(method(message))
        self._open.add(task)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise self._error from None
            raise
        finally:
            self._open.discard(task)


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    stage = Stage(tmp_path / "lease-1.json")
    yield stage
    if stage._lease is not None:
        stage.kill()


class Engines:
    """Makes holders and closes them at the end of the test."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.made: list[LeaseHolder] = []

    def __call__(self, name: str, lease_class: LeaseClass = "interactive") -> LeaseHolder:
        self.made.append(LeaseHolder(self._stage.connect, name, lease_class, self._stage.loop))
        return self.made[-1]


@pytest.fixture
async def engine(stage: Stage) -> AsyncIterator[Engines]:
    engines = Engines(stage)
    yield engines
    for made in engines.made:
        made.idle()
        made.close()
    await until(lambda: all(made._running.done() for made in engines.made))


def in_thread(call: Callable[[], None]) -> asyncio.Task[None]:
    """Block like an engine thread does; `asyncio.to_thread` would keep the loop from closing on a failure."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    loop = asyncio.get_running_loop()

    def finish(error: Exception | None) -> None:
        if error is not None and not future.done():
            future.set_exception(error)
        elif not future.done():
            future.set_result(None)

    def run() -> None:
        try:
            call()
        except ShuttingDown as error:
            loop.call_soon_threadsafe(finish, error)
        else:
            loop.call_soon_threadsafe(finish, None)

    async def wait() -> None:
        async with asyncio.timeout(20):
            await future

    threading.Thread(target=run, daemon=True).start()
    return asyncio.create_task(wait())


async def state_of(stage: Stage) -> Any:
    return await stage.call_now("statistics")


async def waiting(stage: Stage, count: int) -> None:
    async with asyncio.timeout(20):
        while sum(state.waiting for state in (await state_of(stage)).classes.values()) != count:
            await asyncio.sleep(0.001)


async def test_a_lone_engine_sends_nothing_after_its_first_grant(stage: Stage, engine: Engines) -> None:
    lease = engine("a")
    await in_thread(lease.hold)
    await until(lambda: stage.calls == ["acquire", "contended"])
    for _ in range(100):
        lease.hold()
        lease.give_way()
        lease.idle()
    assert not lease.must_yield
    await asyncio.sleep(0)
    assert stage.calls == ["acquire", "contended"]
    assert lease.hold_s > 0.0
    assert lease.wait_s > 0.0


async def test_an_idle_engine_hands_over_at_once(stage: Stage, engine: Engines) -> None:
    first, second = engine("a"), engine("b")
    await in_thread(first.hold)
    first.idle()
    await in_thread(second.hold)
    assert (await state_of(stage)).holder == "b"
    second.idle()
    await in_thread(first.hold)
    assert (await state_of(stage)).holder == "a"


async def test_a_working_engine_is_asked_when_its_slice_is_used_up(stage: Stage, engine: Engines) -> None:
    first, second = engine("a"), engine("b")
    await in_thread(first.hold)
    stage.clock.advance(1.0)
    turn = in_thread(second.hold)
    await until(lambda: first.must_yield)
    assert not turn.done()
    back = in_thread(first.give_way)
    await turn
    assert not back.done()
    second.idle()
    await back
    assert not first.must_yield


async def test_an_engine_that_ends_a_window_early_gives_way_within_its_slice(stage: Stage, engine: Engines) -> None:
    first, second = engine("a", "transcription"), engine("b")
    await in_thread(first.hold)
    turn = in_thread(second.hold)
    await until(lambda: first._pressed)
    back = in_thread(first.give_way)
    await turn
    second.idle()
    await back


async def test_an_engine_that_goes_idle_cannot_snatch_the_lease_from_a_waiter(stage: Stage, engine: Engines) -> None:
    first, second = engine("a"), engine("b")
    await in_thread(first.hold)
    stage.clock.advance(1.0)
    turn = in_thread(second.hold)
    await until(lambda: first.must_yield)
    first.idle()
    back = in_thread(first.hold)
    await turn
    second.idle()
    await back


async def test_closing_wakes_a_waiting_engine_and_takes_its_request_back(stage: Stage, engine: Engines) -> None:
    first, second, third = engine("a"), engine("b"), engine("c")
    await in_thread(first.hold)
    turn = in_thread(second.hold)
    await waiting(stage, 1)
    second.close()
    with pytest.raises(ShuttingDown):
        await turn
    await second.closed()
    assert (await state_of(stage)).classes["interactive"].waiting == 0
    first.idle()
    await in_thread(third.hold)


async def test_closing_wakes_an_engine_that_gives_way(stage: Stage, engine: Engines) -> None:
    first, second = engine("a"), engine("b")
    await in_thread(first.hold)
    turn = in_thread(second.hold)
    await until(lambda: first._pressed)
    back = in_thread(first.give_way)
    await turn
    await waiting(stage, 1)
    first.close()
    with pytest.raises(ShuttingDown):
        await back
    await first.closed()
    await waiting(stage, 0)
    with pytest.raises(ShuttingDown):
        first.hold()


async def test_closing_a_working_engine_releases_only_when_it_stops(stage: Stage, engine: Engines) -> None:
    first, second = engine("a"), engine("b")
    await in_thread(first.hold)
    turn = in_thread(second.hold)
    await waiting(stage, 1)
    first.close()
    assert first.must_yield
    await asyncio.sleep(0)
    assert (await state_of(stage)).holder == "a"
    with pytest.raises(ShuttingDown):
        first.give_way()
    await turn
    await first.closed()


async def test_when_the_lease_dies_the_engine_stops_and_nobody_runs_before(stage: Stage, engine: Engines) -> None:
    first, second = engine("a"), engine("b")
    await in_thread(first.hold)
    turn = in_thread(second.hold)
    await waiting(stage, 1)
    stage.kill()
    await until(lambda: first.must_yield)
    stage.start()
    await waiting(stage, 1)
    assert (await state_of(stage)).holder is None
    assert not turn.done()
    back = in_thread(first.give_way)
    await turn
    assert (await state_of(stage)).epoch == 2
    second.idle()
    await back


async def test_an_idle_engine_clears_itself_with_a_restarted_lease(stage: Stage, engine: Engines) -> None:
    first, second = engine("a"), engine("b")
    await in_thread(first.hold)
    first.idle()
    await until(lambda: "contended" in stage.calls)
    stage.kill()
    stage.start()
    await in_thread(second.hold)
    assert (await state_of(stage)).holder == "b"


async def test_a_lease_that_was_ended_for_good_is_looked_up_anew(stage: Stage, engine: Engines) -> None:
    lease = engine("a")
    await in_thread(lease.hold)
    stage.kill(ActorDiedError())
    await until(lambda: lease.must_yield)
    back = in_thread(lease.give_way)
    await until(lambda: stage.connections > 1)
    stage.start()
    await back
    assert (await state_of(stage)).epoch == 2


async def test_a_grant_whose_answer_was_lost_is_not_kept_by_anyone(stage: Stage, engine: Engines) -> None:
    process = this_process()
    lost = Acquire("a", "interactive", process.pid, process.started, 0)
    assert await stage.call_now("acquire", lost) == Grant("a", 1, 1)
    turn = in_thread(engine("b").hold)
    await waiting(stage, 1)
    again = in_thread(engine("a").hold)
    await turn
    engine.made[0].idle()
    await again


async def test_bytes_are_booked_for_this_process(stage: Stage, engine: Engines) -> None:
    lease = engine("a")
    assert (await lease.reserve("weights", 60)).granted
    assert not (await lease.reserve("cache", 60)).granted
    await lease.unreserve("weights")
    assert (await lease.reserve("cache", 60)).granted


async def test_engines_never_overlap_while_the_lease_dies_again_and_again(stage: Stage, engine: Engines) -> None:
    running = threading.Lock()
    overlaps: list[str] = []
    steps = dict.fromkeys("abc", 0)
    stop = threading.Event()

    def work(name: str, lease: LeaseHolder) -> None:
        while not stop.is_set():
            lease.hold()
            if not running.acquire(blocking=False):
                overlaps.append(name)
                return
            stop.wait(0.001)
            steps[name] += 1
            running.release()
            if lease.must_yield:
                lease.give_way()
            if steps[name] % 7 == 0:
                lease.idle()
        lease.idle()

    def loop_for(name: str) -> Callable[[], None]:
        lease = engine(name)
        return lambda: work(name, lease)

    threads = [in_thread(loop_for(name)) for name in steps]
    for _ in range(3):
        before = dict(steps)
        stage.clock.advance(1.0)
        await until(lambda before=before: all(steps[name] > before[name] for name in steps) or bool(overlaps))
        stage.kill()
        stage.start()
    stop.set()
    for made in engine.made:
        made.close()
    await asyncio.wait(threads)
    assert not overlaps
