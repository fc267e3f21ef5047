"""Noticing that a client has left, whatever its request is doing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.types import Receive

from actors.errors import ClientGone


@asynccontextmanager
async def while_connected(receive: Receive) -> AsyncIterator[None]:
    """Run the block for as long as the client is there. The body of the request must have been read.

    Raises:
        ClientGone: the client left; the block was cancelled at the point where it waited.
    """
    scope = asyncio.timeout(None)
    try:
        async with scope:
            watcher = asyncio.create_task(_cut_short(receive, scope))
            try:
                yield
            finally:
                watcher.cancel()
    except TimeoutError:
        if not scope.expired():
            raise
        raise ClientGone("the client left") from None


async def _cut_short(receive: Receive, scope: asyncio.Timeout) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue
    scope.reschedule(0)
