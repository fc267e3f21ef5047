"""A thread that runs MLX: it takes one piece of work after the other and keeps no claim on the GPU without any.

    while running: take the next piece of work and do it; when there is none, leave nothing in flight, and wait for news

MLX streams belong to threads, so everything that touches an array happens in it. What kinds of work there are, and
where the lease is held, is up to the engine that this is the base of.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from actors import cpu_kernels
from actors.errors import ShuttingDown
from actors.gpu_lease.ports import Lease

_log = logging.getLogger(__name__)
T = TypeVar("T")


class LeasedThread(ABC):
    """See the module. `start`, `stop`, `join` and `hand_in` may be called from any thread.

    Args:
        name: of the thread.
        lease: permission to run MLX.
    """

    def __init__(self, name: str, lease: Lease) -> None:
        self._lease = lease
        self._news = threading.Condition()
        """Guards what waits; notified of anything to do. May be taken again by the thread that has it."""
        self._running = True
        self._errands: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread after what it does now; whatever waits gets nothing more. May be repeated."""
        with self._news:
            self._running = False
            self._news.notify_all()

    def join(self) -> None:
        """Block until the thread has ended."""
        self._thread.join()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def hand_in(self, errand: Callable[[], T]) -> Future[T]:
        """Have something done in the thread and under the lease, before any other work.

        The future raises what the errand does, and `ShuttingDown` when the thread ends before it.
        """
        future: Future[T] = Future()
        with self._news:
            if not self._running:
                future.set_exception(ShuttingDown("the server is shutting down"))
                return future
            self._errands.append((errand, future))
            self._news.notify_all()
        return future

    # An engine's own part.

    @property
    @abstractmethod
    def waiting(self) -> int:
        """Pieces of work in line, errands not counted. From any thread."""

    @abstractmethod
    def _next(self) -> Callable[[], None] | None:
        """Take the next piece of work out of the line; None when there is none. Called with `_news` taken."""

    @abstractmethod
    def _rest(self) -> None:
        """There is no work: leave nothing in flight on the device."""

    @abstractmethod
    def _end(self) -> None:
        """The thread ends: let the arrays go."""

    # The thread.

    def _run(self) -> None:
        try:
            cpu_kernels.activate()
            while self._running:
                self._turn()
        except ShuttingDown:
            _log.debug("the lease is closed")
        finally:
            self._end()
            self._lease.idle()
            self._turn_away()

    def _turn(self) -> None:
        work = self._take()
        if work is not None:
            work()
            return
        self._rest()
        self._lease.idle()
        with self._news:
            self._news.wait_for(lambda: not self._running or bool(self._errands) or self.waiting > 0)

    def _take(self) -> Callable[[], None] | None:
        with self._news:
            if not self._errands:
                return self._next()
            errand, future = self._errands.popleft()
        return lambda: self._do(errand, future)

    def _do(self, errand: Callable[[], T], future: Future[T]) -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            self._lease.hold()
            result = errand()
        except BaseException as error:
            future.set_exception(error)
            if isinstance(error, ShuttingDown):
                raise
            return
        future.set_result(result)

    def _turn_away(self) -> None:
        """Nobody takes errands any more."""
        with self._news:
            self._running = False
            left, self._errands = self._errands, deque()
        for _, future in left:
            if future.set_running_or_notify_cancel():
                future.set_exception(ShuttingDown("the server is shutting down"))
