import asyncio

import pytest
from starlette.types import Message

from actors.errors import ClientGone
from routes.disconnect import while_connected
from tests.routes.call import turns


class Client:
    def __init__(self) -> None:
        self.messages: asyncio.Queue[Message] = asyncio.Queue()

    async def receive(self) -> Message:
        return await self.messages.get()

    def leave(self) -> None:
        self.messages.put_nowait({"type": "http.disconnect"})


async def test_the_block_is_cancelled_when_the_client_leaves() -> None:
    client, seen = Client(), list[str]()

    async def work() -> None:
        async with while_connected(client.receive):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise

    task = asyncio.ensure_future(work())
    await turns()
    client.messages.put_nowait({"type": "http.request", "body": b"", "more_body": False})
    await turns()
    assert not task.done()
    client.leave()
    with pytest.raises(ClientGone):
        await task
    assert seen == ["cancelled"]


async def test_a_timeout_inside_stays_a_timeout() -> None:
    with pytest.raises(TimeoutError):
        async with while_connected(Client().receive):
            raise TimeoutError


async def test_cancelling_from_outside_stays_a_cancellation() -> None:
    async def work() -> None:
        async with while_connected(Client().receive):
            await asyncio.Event().wait()

    task = asyncio.ensure_future(work())
    await turns()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_leaving_after_the_end_changes_nothing() -> None:
    client = Client()
    async with while_connected(client.receive):
        await turns()
    client.leave()
    await turns()
    assert client.messages.qsize() == 1
