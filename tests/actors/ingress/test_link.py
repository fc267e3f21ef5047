"""The link between an ingress and a scheduler, over a real mailbox and without Ray."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from actors.clock import FakeClock
from actors.errors import EngineUnavailable, GenerationFailed, QueueFull
from actors.generation.mailbox import Mailbox
from actors.generation.messages import Accepted, Cancel, Delta, Description, Failure, Sampling, StepEvents, Submit
from actors.ids import Incarnation, IngressId, RequestId
from actors.ingress.link import MANY_DEATHS, SchedulerLink


class Remote:
    """`handle.method.remote(...)`, answered in this process."""

    def __init__(self, method: Callable[..., Awaitable[Any]]) -> None:
        self.remote = method


class Scheduler:
    """A handle whose lives can be ended."""

    def __init__(self) -> None:
        self.answer: Accepted | Failure | None = None
        self.submitted: list[Submit] = []
        self.cancelled: asyncio.Queue[Cancel] = asyncio.Queue()
        self.gone: asyncio.Queue[IngressId] = asyncio.Queue()
        self.answered = asyncio.Event()
        self.answered.set()
        self.mailbox: Mailbox | None = None
        self.describe, self.submit = Remote(self._describe), Remote(self._submit)

    async def begin(self) -> None:
        self.mailbox = Mailbox(self.cancelled.put_nowait, self.gone.put_nowait)
        await self.mailbox.open("127.0.0.1")

    def die(self) -> None:
        assert self.mailbox is not None
        self.mailbox.close()
        self.mailbox = None

    def post(self, ingress: IngressId, *deltas: Delta) -> None:
        assert self.mailbox is not None
        self.mailbox.post(ingress, StepEvents(1, deltas))

    async def _describe(self) -> Description:
        if self.mailbox is None:
            raise ConnectionError("dead")
        return Description(
            incarnation=Incarnation("one"),
            model_id="tiny",
            model_path="/tiny",
            mailbox_host=self.mailbox.host,
            mailbox_port=self.mailbox.port,
            mailbox_secret=self.mailbox.secret,
            vocabulary=256,
            context_limit=None,
            max_rows=8,
            batchable=True,
            trimmable=True,
            weight_bytes=1,
            dtype="float32",
            device="cpu",
        )

    async def _submit(self, request: Submit) -> Accepted | Failure:
        self.submitted.append(request)
        await self.answered.wait()
        return self.answer or Accepted(request.request_id, 0)


@pytest.fixture
async def scheduler() -> AsyncIterator[Scheduler]:
    scheduler = Scheduler()
    await scheduler.begin()
    yield scheduler
    if scheduler.mailbox is not None:
        scheduler.die()


@pytest.fixture
async def link(scheduler: Scheduler) -> AsyncIterator[SchedulerLink]:
    link = SchedulerLink(scheduler, on_draining=lambda: None, patience_s=20, clock=FakeClock())
    async with asyncio.timeout(20):
        await link.start()
        yield link
    link.close()


def row(link: SchedulerLink, name: str = "row") -> Submit:
    return Submit(RequestId(name), link.ingress, b"\0\0\0\0", 4, Sampling())


async def test_deltas_arrive_in_order_and_end_with_the_row(link: SchedulerLink, scheduler: Scheduler) -> None:
    async with link.generate(row(link)) as deltas:
        for number in range(3):
            scheduler.post(link.ingress, Delta(RequestId("row"), (number,)), Delta(RequestId("other"), (9,)))
        scheduler.post(link.ingress, Delta(RequestId("row"), (3,), finish="stop"))
        tokens = [token async for delta in deltas for token in delta.tokens]
    assert tokens == [0, 1, 2, 3]
    assert scheduler.cancelled.empty(), "a row that has ended needs no cancel"


async def test_a_failed_row_raises_its_own_error(link: SchedulerLink, scheduler: Scheduler) -> None:
    async with link.generate(row(link)) as deltas:
        failure = Failure("GenerationFailed", "it broke")
        scheduler.post(link.ingress, Delta(RequestId("row"), finish="error", failure=failure))
        with pytest.raises(GenerationFailed, match="it broke"):
            await anext(deltas)


async def test_a_refusal_is_raised_and_leaves_nothing_to_cancel(link: SchedulerLink, scheduler: Scheduler) -> None:
    scheduler.answer = Failure("QueueFull", "full")
    with pytest.raises(QueueFull):
        async with link.generate(row(link)):
            raise AssertionError("not reached")
    scheduler.answer = None
    async with link.generate(row(link, "next")):
        pass
    assert (await scheduler.cancelled.get()).request_id == "next"
    assert scheduler.cancelled.empty()


async def test_leaving_early_cancels_the_row(link: SchedulerLink, scheduler: Scheduler) -> None:
    async with link.generate(row(link)) as deltas:
        scheduler.post(link.ingress, Delta(RequestId("row"), (1,)))
        await anext(deltas)
    assert (await scheduler.cancelled.get()).request_id == "row"


async def test_a_cancel_never_overtakes_its_submit(link: SchedulerLink, scheduler: Scheduler) -> None:
    scheduler.answered.clear()

    async def client() -> None:
        async with link.generate(row(link)):
            raise AssertionError("not reached")

    task = asyncio.create_task(client())
    while not scheduler.submitted:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert scheduler.cancelled.empty()
    scheduler.answered.set()
    assert (await scheduler.cancelled.get()).request_id == "row"


async def test_a_dead_scheduler_ends_its_streams_and_the_next_life_serves(
    link: SchedulerLink, scheduler: Scheduler
) -> None:
    async with link.generate(row(link)) as deltas:
        scheduler.die()
        with pytest.raises(EngineUnavailable):
            await anext(deltas)
    waiting = asyncio.create_task(_first_token(link, "next"))
    await asyncio.sleep(0)
    await scheduler.begin()
    while not any(request.request_id == "next" for request in scheduler.submitted):
        await asyncio.sleep(0.01)
    scheduler.post(link.ingress, Delta(RequestId("next"), (7,), finish="length"))
    assert await waiting == 7


async def test_a_scheduler_that_dies_while_it_answers_a_submit_does_not_hold_the_request(
    link: SchedulerLink, scheduler: Scheduler
) -> None:
    scheduler.answered.clear()
    request = asyncio.create_task(_first_token(link, "row"))
    while not scheduler.submitted:
        await asyncio.sleep(0)
    scheduler.die()
    with pytest.raises(EngineUnavailable):
        await request
    scheduler.answered.set()


async def test_a_scheduler_that_dies_again_and_again_is_not_waited_for(
    link: SchedulerLink, scheduler: Scheduler
) -> None:
    for death in range(MANY_DEATHS):
        if death:
            await scheduler.begin()
        while not link.connected:
            await asyncio.sleep(0.01)
        scheduler.die()
        while link.connected:
            await asyncio.sleep(0.01)
    with pytest.raises(EngineUnavailable, match="died 4 times within 60 s"):
        async with link.generate(row(link)):
            raise AssertionError("not reached")


async def test_news_of_a_drain_reaches_the_ingress(scheduler: Scheduler) -> None:
    heard = asyncio.Event()
    link = SchedulerLink(scheduler, on_draining=heard.set)
    async with asyncio.timeout(20):
        await link.start()
        assert scheduler.mailbox is not None
        scheduler.mailbox.post_all(StepEvents(0, (), draining=True))
        await heard.wait()
    link.close()


async def test_a_closed_link_is_gone_for_the_scheduler(link: SchedulerLink, scheduler: Scheduler) -> None:
    assert scheduler.mailbox is not None
    assert scheduler.mailbox.knows(link.ingress)
    link.close()
    assert await scheduler.gone.get() == link.ingress
    assert not scheduler.mailbox.knows(link.ingress)


async def _first_token(link: SchedulerLink, name: str) -> int:
    async with link.generate(row(link, name)) as deltas:
        return (await anext(deltas)).tokens[0]
