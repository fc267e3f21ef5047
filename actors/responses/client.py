"""What a route may ask of the response store, over the actor's handle."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import Any, TypeVar

from actors.errors import StoreUnavailable
from actors.ids import RequestId
from actors.responses.messages import Keep, Kept, StoreStatistics, Turn

T = TypeVar("T")
log = logging.getLogger("troupe.responses")

PATIENCE_S = 30.0
"""For a question: a store that died is back within seconds."""
KEEP_PATIENCE_S = 5.0
"""For keeping a response, whose end the client waits for."""


class ResponseStoreClient:
    """Event loop only. Every method may raise `StoreUnavailable` and may be cancelled.

    Args:
        store: handle of the store.
    """

    def __init__(self, store: Any) -> None:
        self._store = store

    async def keep(self, message: Keep) -> Kept:
        return await self._ask(self._store.keep.remote(message), KEEP_PATIENCE_S)

    async def thread(self, response_id: RequestId) -> tuple[Turn, ...] | None:
        return await self._ask(self._store.thread.remote(response_id))

    async def find(self, response_id: RequestId) -> bytes | None:
        return await self._ask(self._store.find.remote(response_id))

    async def holding(self, items: tuple[str, ...]) -> tuple[bytes, ...]:
        return await self._ask(self._store.holding.remote(items))

    async def forget(self, response_id: RequestId) -> bool:
        return await self._ask(self._store.forget.remote(response_id))

    async def statistics(self) -> StoreStatistics:
        return await self._ask(self._store.statistics.remote())

    async def _ask(self, answer: Awaitable[T], patience_s: float = PATIENCE_S) -> T:
        try:
            async with asyncio.timeout(patience_s):
                return await answer
        except Exception as error:  # a dead replica fails in ways of its own
            log.warning("the response store does not answer: %s", error or type(error).__name__)
            raise StoreUnavailable("the response store does not answer") from error
