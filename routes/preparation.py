"""The line in front of the threads that render chat templates and tokenize."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from actors.clock import Clock, MonotonicClock
from actors.errors import QueueFull, ShuttingDown

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PreparationStatistics:
    """State of the line."""

    preparing: int
    """Requests in a thread now."""
    waiting: int
    """Requests in line."""
    oldest_wait_s: float
    """How long the first in line has waited, in seconds."""
    prepared: int
    """Requests that went through a thread since start."""
    refused: int
    """Requests that found the line full since start."""


class Preparation:
    """A few threads and a bounded line. Belongs to one event loop."""

    def __init__(self, threads: int, limit: int, clock: Clock | None = None) -> None:
        """At most `threads` pieces of work run, at most `limit` wait."""
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="preparation")
        self._threads = threads
        self._limit = limit
        self._clock = clock or MonotonicClock()
        self._running = 0
        self._line: dict[asyncio.Future[None], float] = {}
        self._prepared = 0
        self._refused = 0

    async def run(self, work: Callable[[], T]) -> T:
        """Wait for a thread, call `work` there and return its result or raise its error.

        Cancelling while in line gives the place up at once. Cancelling while it runs returns at once too; the
        thread stays taken until `work` has returned.

        Raises:
            QueueFull: the line is at its bound.
            ShuttingDown: `close` was called.
        """
        await self._take_thread()
        loop = asyncio.get_running_loop()

        def freed(_: Future[T]) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._give_thread)

        try:
            future = self._executor.submit(work)
        except RuntimeError:  # closed
            self._pass_on()
            raise ShuttingDown("the server is shutting down") from None
        future.add_done_callback(freed)
        return await asyncio.wrap_future(future)

    def statistics(self) -> PreparationStatistics:
        first = next(iter(self._line.values()), None)
        return PreparationStatistics(
            preparing=self._running,
            waiting=len(self._line),
            oldest_wait_s=0.0 if first is None else self._clock.now() - first,
            prepared=self._prepared,
            refused=self._refused,
        )

    def close(self) -> None:
        """End the threads once they are idle; whatever waits is dropped. Does not block."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def _take_thread(self) -> None:
        if self._running < self._threads:
            self._running += 1
            return
        if len(self._line) >= self._limit:
            self._refused += 1
            raise QueueFull(f"{self._limit} requests are waiting to be prepared; try again later")
        ticket: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line[ticket] = self._clock.now()
        try:
            await ticket
        except asyncio.CancelledError:
            if self._line.pop(ticket, None) is None:  # the thread was handed over just before the cancellation
                self._pass_on()
            raise

    def _give_thread(self) -> None:
        self._prepared += 1
        self._pass_on()

    def _pass_on(self) -> None:
        """Hand a thread to the first in line, or take it out of use."""
        ticket = next(iter(self._line), None)
        if ticket is None:
            self._running -= 1
            return
        del self._line[ticket]
        ticket.set_result(None)
