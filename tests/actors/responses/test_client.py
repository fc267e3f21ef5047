from __future__ import annotations

import asyncio

import pytest

from actors.clock import FakeClock
from actors.errors import StoreUnavailable
from actors.ids import RequestId
from actors.responses.actor import ResponseStore
from actors.responses.client import ResponseStoreClient
from actors.responses.messages import Keep, Kept, Turn
from actors.settings import ResponseSettings
from tests.support.handle import Handle

NAME = RequestId("resp_1")
TURN = Turn(b"[]", b"{}")


class Dead:
    """What a handle of a dead replica does."""

    async def find(self, response_id: RequestId) -> bytes | None:
        raise RuntimeError("the replica died")


class Silent:
    """One that never answers."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.cancelled = False

    async def find(self, response_id: RequestId) -> bytes | None:
        self.asked.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return None


async def test_the_store_answers_through_its_handle() -> None:
    client = ResponseStoreClient(Handle(ResponseStore(ResponseSettings(), FakeClock())))
    assert await client.keep(Keep(NAME, None, TURN, ("msg_1",))) is Kept.STORED
    assert await client.find(NAME) == b"{}"
    assert await client.thread(NAME) == (TURN,)
    assert await client.holding(("msg_1", "msg_2")) == (b"{}",)
    statistics = await client.statistics()
    assert (statistics.entries, statistics.hits, statistics.mailbox_depth) == (1, 3, 1)
    assert await client.forget(NAME)
    assert not await client.forget(NAME)


async def test_a_dead_store_is_told_in_words() -> None:
    with pytest.raises(StoreUnavailable, match="the response store does not answer"):
        await ResponseStoreClient(Handle(Dead())).find(NAME)


async def test_who_leaves_ends_his_question() -> None:
    store = Silent()
    question = asyncio.create_task(ResponseStoreClient(Handle(store)).find(NAME))
    await store.asked.wait()
    question.cancel()
    with pytest.raises(asyncio.CancelledError):
        await question
    assert store.cancelled
