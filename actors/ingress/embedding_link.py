"""An ingress replica's way to the embedder: one actor call a request, and another one when its client leaves."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from actors import errors
from actors.embedding.messages import CancelEmbedding, Embed, Embedded, EmbedderStatistics, Failure
from actors.errors import EngineUnavailable, QueueFull
from actors.ids import RequestId
from actors.models.embedding_card import EmbeddingCard

log = logging.getLogger("troupe.ingress.embedding")


class EmbeddingLink:
    """Implements `EmbeddingClient`. Event loop only.

    Args:
        embedder: handle of the embedder's deployment.
        card: what it serves.
        limit: calls under way at once; while the embedder restarts, they wait here.
    """

    def __init__(self, embedder: Any, card: EmbeddingCard, limit: int) -> None:
        self.card = card
        self._embedder = embedder
        self._limit = limit
        self._calls: set[asyncio.Future[Any]] = set()
        self._cancels: set[asyncio.Future[Any]] = set()

    async def embed(self, request: Embed) -> Embedded:
        if len(self._calls) >= self._limit:
            raise QueueFull(f"the embedding queue is full ({self._limit} requests wait)")
        call = _kept(self._embedder.embed.remote(request), self._calls)
        try:
            answer: Embedded | Failure = await asyncio.shield(call)
        except asyncio.CancelledError:
            _kept(self._cancel(request.request_id), self._cancels)
            raise
        except Exception as error:
            raise EngineUnavailable("the embedding model died while it served this request") from error
        if isinstance(answer, Failure):
            raise errors.by_name(answer.error, answer.message)
        return answer

    async def statistics(self) -> EmbedderStatistics:
        try:
            return await self._embedder.statistics.remote()
        except Exception as error:
            raise EngineUnavailable("the embedding model does not answer") from error

    async def _cancel(self, request_id: RequestId) -> None:
        try:
            await self._embedder.cancel.remote(CancelEmbedding(request_id))
        except Exception as error:
            log.debug("%s could not be cancelled: %s", request_id, error)


def _kept(call: Any, among: set[asyncio.Future[Any]]) -> asyncio.Future[Any]:
    """A call that goes on whatever becomes of whoever waits for it."""

    def ended(task: asyncio.Future[Any]) -> None:
        among.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.debug("a call to the embedder failed: %s", task.exception())

    task = asyncio.ensure_future(_result(call))
    among.add(task)
    task.add_done_callback(ended)
    return task


async def _result(response: Any) -> Any:
    return await response
