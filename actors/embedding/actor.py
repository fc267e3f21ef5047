"""The embedder: owns an embedding model, loads it when it is first needed, and computes vectors under the GPU lease.

The event loop takes messages, keeps the bounded line and answers; the engine thread (engine.py) does everything that
touches an array.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from actors import ids
from actors.embedding.engine import Engine
from actors.embedding.line import Item, Job
from actors.embedding.loading import load
from actors.embedding.messages import CancelEmbedding, Embed, Embedded, EmbedderStatistics, Failure
from actors.embedding.pooling import Floats, unit
from actors.errors import (
    ClientGone,
    EngineUnavailable,
    InvalidRequest,
    QueueFull,
    ShuttingDown,
    StartError,
    TroupeError,
)
from actors.generation.policy import PrefillRate
from actors.gpu_lease import booking
from actors.gpu_lease.holder import LeaseHolder
from actors.ids import RequestId
from actors.models.embedding_card import EmbeddingCard
from actors.open_requests import OpenRequests
from actors.settings import Settings

log = logging.getLogger("troupe.embedding")


@dataclass(slots=True)
class _Open:
    """One request that is not answered yet."""

    job: Job
    vectors: Floats
    """One row a text, filled batch by batch."""
    left: int
    """Rows that are not."""
    since: float
    """The loop's time when it came."""
    answer: asyncio.Future[Embedded | Failure]


class Embedder:
    """One embedding model on one machine. All methods are called on one event loop.

    Args:
        settings: the whole configuration.
        card: what is served.
        lease: returns the handle of this machine's GPU lease.
        eager: load the weights at the start, instead of at the first request.
    """

    def __init__(self, settings: Settings, card: EmbeddingCard, lease: Callable[[], Any], eager: bool = False) -> None:
        self._settings = settings.embeddings
        self._card = card
        self._lease_factory = lease
        self._eager = eager
        self._open: dict[RequestId, _Open] = {}
        self._loading: asyncio.Task[None] | None = None
        self._weight_bytes = 0
        self._finished = self._cancelled = self._failed = 0
        self._requests = OpenRequests()

    async def start(self) -> None:
        """Start the engine thread. Raises `StartError` when the weights are loaded now and cannot be."""
        self._loop = asyncio.get_running_loop()
        self._lease = LeaseHolder(self._lease_factory, f"embedding:{ids.incarnation()}", "embeddings", self._loop)
        self._engine = Engine(self._lease, self, PrefillRate(self._settings.stall_s, self._settings.batch_tokens))
        self._engine.start()
        if self._eager:
            await self._load()

    def check_health(self) -> None:
        """Raises when the engine thread has died, so that the deployment is restarted."""
        if not self._engine.alive:
            raise RuntimeError("the engine thread has ended")

    async def embed(self, request: Embed) -> Embedded | Failure:
        """Vectors of all texts; waits for the weights, the line, and the computation.

        Cancelling it gives the request up, as `cancel` does. A request id that is open already is refused.
        """
        if self._requests.closed:
            return Failure(ShuttingDown.__name__, "the server is shutting down")
        if len(self._open) >= self._settings.queue:
            return Failure(QueueFull.__name__, f"the embedding queue is full ({self._settings.queue} requests wait)")
        texts = [np.frombuffer(text, dtype="<u4").tolist() for text in request.texts]
        problem = self._problem(request, texts)
        if problem:
            return Failure(InvalidRequest.__name__, problem)
        job = Job(request.request_id, texts)
        vectors = np.empty((len(texts), self._card.dimensions), dtype=np.float32)
        mine = _Open(job, vectors, len(texts), self._loop.time(), self._loop.create_future())
        with self._requests.counted(), self._registered(mine):
            answer = await self._computed(mine)
        if isinstance(answer, Failure):
            return answer
        self._finished += 1
        return _packed(unit(vectors, request.dimensions))

    async def cancel(self, message: CancelEmbedding) -> None:
        """Give a request up; its `embed` answers `ClientGone` at once."""
        mine = self._open.get(message.request_id)
        if mine is not None and not mine.job.ended:
            self._give_up(mine)

    async def statistics(self) -> EmbedderStatistics:
        engine = self._engine
        oldest = next(iter(self._open.values()), None)
        return EmbedderStatistics(
            loaded=self._weight_bytes > 0,
            weight_bytes=self._weight_bytes,
            open_requests=len(self._open),
            waiting_texts=engine.waiting,
            oldest_wait_s=0.0 if oldest is None else self._loop.time() - oldest.since,
            finished_requests=self._finished,
            cancelled_requests=self._cancelled,
            failed_requests=self._failed,
            texts=engine.tally.texts,
            text_tokens=engine.tally.text_tokens,
            passes=engine.tally.passes,
            tokens_per_s=engine.rate.tokens_per_s,
            lease_wait_s=self._lease.wait_s,
            lease_hold_s=self._lease.hold_s,
        )

    async def drain(self) -> None:
        """Refuse new requests and return when the last one has ended. Cancelling stops only the waiting."""
        await self._requests.drain()

    async def close(self) -> None:
        """End the engine thread and give the lease back. Open requests are answered `ShuttingDown`."""
        self._requests.closed = True
        for mine in self._open.values():
            self._end(mine, Failure(ShuttingDown.__name__, "the server is shutting down"))
        self._engine.stop()
        self._lease.close()
        await asyncio.to_thread(self._engine.join)
        await self._lease.closed()

    # What the engine says; called from its thread.

    def computed(self, items: Sequence[Item], vectors: Floats) -> None:
        self._loop.call_soon_threadsafe(self._take, items, vectors)

    def failed(self, job: Job, error: TroupeError) -> None:
        self._loop.call_soon_threadsafe(self._fail, job, error)

    # The event loop's part.

    def _problem(self, request: Embed, texts: list[list[int]]) -> str | None:
        card = self._card
        if request.request_id in self._open:
            return f"request {request.request_id} is running already"
        if not texts:
            return "there is no text"
        for text in texts:
            if not text:
                return "a text has no tokens"
            if len(text) > card.max_tokens:
                return f"a text has {len(text)} tokens, where the model reads {card.max_tokens}"
            if max(text) >= card.vocabulary:
                return f"token id {max(text)} is not in the vocabulary of {card.vocabulary}"
        if not 1 <= request.dimensions <= card.dimensions:
            return f"dimensions must be from 1 to {card.dimensions}"
        return None

    @contextmanager
    def _registered(self, mine: _Open) -> Iterator[None]:
        self._open[mine.job.request_id] = mine
        try:
            yield
        finally:
            mine.job.ended = True
            self._open.pop(mine.job.request_id, None)

    async def _computed(self, mine: _Open) -> Embedded | Failure:
        """What the engine makes of a request. Cancelling it gives the request up."""
        try:
            # A client that leaves while the weights load is answered at once, and the loading goes on for the next one.
            loading = asyncio.ensure_future(self._ready())
            loading.add_done_callback(_heard)
            await asyncio.wait({loading, mine.answer}, return_when=asyncio.FIRST_COMPLETED)
            if not mine.job.ended:
                loading.result()
                self._engine.submit(mine.job)
            return await mine.answer
        except TroupeError as error:
            self._failed += 1
            kind = EngineUnavailable if isinstance(error, StartError) else type(error)
            return Failure(kind.__name__, error.message)
        except asyncio.CancelledError:
            self._give_up(mine)
            raise

    async def _ready(self) -> None:
        """Wait for the weights; one attempt serves all who wait for it."""
        if self._weight_bytes:
            return
        if self._loading is None:
            self._loading = asyncio.ensure_future(self._load())
            self._loading.add_done_callback(self._loading_ended)
        await asyncio.shield(self._loading)

    def _loading_ended(self, loading: asyncio.Task[None]) -> None:
        self._loading = None
        error = None if loading.cancelled() else loading.exception()
        if error is not None:
            log.error("the embedding model is not loaded: %s", error)

    async def _load(self) -> None:
        """Book the memory, then load. Raises `StartError`, or `ShuttingDown`."""
        card = self._card

        async def work() -> int:
            loaded = await asyncio.wrap_future(self._engine.load(lambda: load(card, self._settings.dtype)))
            return loaded.weight_bytes

        model = card.model
        self._weight_bytes = await booking.load(self._lease, model.model_id, model.weight_bytes, work)
        log.info("%s is loaded: %.0f MB", model.model_id, self._weight_bytes / 1e6)

    def _take(self, items: Sequence[Item], vectors: Floats) -> None:
        for item, vector in zip(items, vectors, strict=True):
            mine = self._open.get(item.job.request_id)
            if mine is None or mine.job is not item.job or mine.job.ended:
                continue
            mine.vectors[item.index] = vector
            mine.left -= 1
            if mine.left == 0:
                self._end(mine, Embedded(()))

    def _fail(self, job: Job, error: TroupeError) -> None:
        mine = self._open.get(job.request_id)
        if mine is not None and mine.job is job and not job.ended:
            self._failed += 1
            self._end(mine, Failure(type(error).__name__, error.message))

    def _give_up(self, mine: _Open) -> None:
        self._cancelled += 1
        self._end(mine, Failure(ClientGone.__name__, "the client left"))

    def _end(self, mine: _Open, answer: Embedded | Failure) -> None:
        mine.job.ended = True
        self._engine.cancel(mine.job)
        if not mine.answer.done():
            mine.answer.set_result(answer)


def _heard(loading: asyncio.Task[None]) -> None:
    """Nobody may be left to hear of it, which is no news for the log."""
    if not loading.cancelled():
        loading.exception()


def _packed(vectors: Floats) -> Embedded:
    little = vectors.astype("<f4")
    return Embedded(tuple(row.tobytes() for row in little))
