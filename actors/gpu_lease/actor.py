"""The actor that lends MLX to one process of its machine at a time.

It decides nothing itself: every call goes through `Lease` and `Ledger`, then `_settle` tells whom it concerns.
It keeps no timer while nobody holds, waits or books, and is sent nothing while a holder is alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import psutil

from actors.clock import Clock, MonotonicClock
from actors.errors import ServiceError
from actors.gpu_lease.journal import Journal, Record
from actors.gpu_lease.lease import Holding, Key, Lease, key_of
from actors.gpu_lease.ledger import Ledger
from actors.gpu_lease.life_signs import LifeSigns
from actors.gpu_lease.messages import (
    Acquire,
    Contention,
    Grant,
    LeaseClass,
    LeaseStatistics,
    Release,
    Reserve,
    Reserved,
    Unreserve,
    Withdraw,
    Yield,
)
from actors.gpu_lease.process import Process
from actors.settings import LeaseSettings

_log = logging.getLogger(__name__)
_BUDGET_OF_RAM = 0.75


class GpuLease:
    """One life of a machine's lease. Many calls run at once, all on one event loop.

    Raises:
        OSError: the journal's folder cannot be used.
    """

    def __init__(
        self,
        settings: LeaseSettings,
        journal: Path,
        *,
        clock: Clock | None = None,
        alive: Callable[[Process], bool] | None = None,
    ) -> None:
        self._clock = clock or MonotonicClock()
        self._signs = LifeSigns()
        self._alive = alive = alive or self._signs.alive
        self._liveness_s = settings.liveness_ms / 1000
        self._journal = Journal(journal)
        former = self._journal.read() or Record(epoch=0)
        suspect = former.holding
        if suspect is not None and not alive(suspect.key.process):
            suspect = None
        weights: dict[LeaseClass, float] = {name: getattr(settings.weights, name) for name in get_args(LeaseClass)}
        self._lease = Lease(former.epoch + 1, weights, settings.slice_ms / 1000, suspect)
        budget = settings.memory_budget
        if budget is None:
            budget = int(psutil.virtual_memory().total * _BUDGET_OF_RAM)
        self._ledger = Ledger(budget, former.bookings)
        self._turns: dict[Key, asyncio.Future[Grant | None]] = {}
        self._watchers: list[tuple[Grant, asyncio.Future[Contention]]] = []
        self._liveness: asyncio.Task[None] | None = None
        self._written = Record(self._lease.epoch, suspect, self._ledger.bookings)
        self._journal.write(self._written)

    async def acquire(self, request: Acquire) -> Grant | None:
        """Wait for the turn of this holder; None when a newer request of its own took the place.

        Cancelling takes the request back, and the grant if it had just been given.

        Raises:
            ServiceError: the journal cannot be written, so that the grant would be unsafe.
        """
        if not self._lease.ask(request, self._clock.now()):
            return None
        return await self._turn(request)

    async def yield_(self, message: Yield) -> Grant | None:
        """Give way and wait for the next turn; None when the grant was stale: acquire anew. Else as `acquire`."""
        request = self._lease.yield_(message.grant, message.worked_s, self._clock.now())
        if request is None:
            self._settle()
            return None
        return await self._turn(request)

    async def contended(self, grant: Grant) -> Contention:
        """Park until somebody waits or the grant is void. Cancelling changes nothing; may be repeated."""
        future: asyncio.Future[Contention] = asyncio.get_running_loop().create_future()
        watcher = (grant, future)
        self._watchers.append(watcher)
        self._settle()
        try:
            return await future
        finally:
            self._watchers.remove(watcher)

    async def release(self, message: Release) -> None:
        """Give way for good. A stale grant is ignored; may be repeated."""
        self._lease.release(message.grant, message.worked_s, self._clock.now())
        self._settle()

    async def withdraw(self, message: Withdraw) -> None:
        """End a holder's request and what came of it; may be repeated."""
        self._lease.withdraw(message, self._clock.now())
        self._settle()
        if not self._lease.knows(key_of(message)):
            self._answer(key_of(message), None)

    async def reserve(self, message: Reserve) -> Reserved:
        """Book resident bytes, or refuse in words. May be repeated."""
        outcome = self._ledger.book(message)
        self._settle()
        return outcome

    async def unreserve(self, message: Unreserve) -> None:
        """End a booking; an unknown one is ignored."""
        self._ledger.end(message)
        self._settle()

    async def statistics(self) -> LeaseStatistics:
        """The lease's state now."""
        now = self._clock.now()
        holding = self._lease.holding
        return LeaseStatistics(
            epoch=self._lease.epoch,
            holder=holding.grant.holder if holding is not None else None,
            held_s=self._lease.held_s(now),
            classes={**self._lease.statistics(now)},
            deaths=self._lease.deaths,
            reserved_bytes=self._ledger.reserved,
            budget_bytes=self._ledger.budget,
            mailbox_depth=len(self._turns) + len(self._watchers),
        )

    def close(self) -> None:
        """Let go of the journal, as the end of the process does. Nothing may be called afterwards."""
        if self._liveness is not None:
            self._liveness.cancel()
        self._journal.close()

    async def _turn(self, request: Acquire) -> Grant | None:
        key = key_of(request)
        self._answer(key, None)
        future: asyncio.Future[Grant | None] = asyncio.get_running_loop().create_future()
        self._turns[key] = future
        self._settle()
        try:
            return await future
        except asyncio.CancelledError:
            message = Withdraw(request.holder, request.pid, request.started, request.attempt)
            self._lease.withdraw(message, self._clock.now())
            self._settle()
            raise
        finally:
            if self._turns.get(key) is future:
                del self._turns[key]

    def _settle(self) -> None:
        """Act on what the pure parts decided: grants, contentions, the journal, the liveness check."""
        now = self._clock.now()
        while (holding := self._lease.grant_next(now)) is not None:
            try:
                self._record(holding)
            except OSError as error:
                # A grant that the next life would not know of must not go out.
                self._lease.release(holding.grant, 0.0, now)
                self._answer(holding.key, ServiceError(f"the lease journal cannot be written: {error.strerror}"))
            else:
                self._answer(holding.key, holding.grant)
        try:
            self._record(self._lease.holding or self._lease.suspect)
        except OSError as error:
            _log.error("the lease journal cannot be written: %s", error)
        for grant, future in self._watchers:
            contention = self._lease.contention(grant, now)
            if contention is not None and not future.done():
                future.set_result(contention)
        if self._liveness is None and self._watched():
            self._liveness = asyncio.get_running_loop().create_task(self._check_liveness())

    def _record(self, holding: Holding | None) -> None:
        record = Record(self._lease.epoch, holding, self._ledger.bookings)
        if record != self._written:
            self._journal.write(record)
            self._written = record

    def _answer(self, key: Key, outcome: Grant | ServiceError | None) -> None:
        future = self._turns.pop(key, None)
        if future is None or future.done():
            return
        if isinstance(outcome, ServiceError):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)

    def _watched(self) -> set[Process]:
        return self._lease.processes() | self._ledger.processes()

    async def _check_liveness(self) -> None:
        try:
            while self._watched():
                await asyncio.sleep(self._liveness_s)
                for process in self._watched():
                    if not self._alive(process):
                        self._bury(process)
                self._settle()
                self._signs.keep(self._watched())
        finally:
            self._signs.keep(frozenset())
            self._liveness = None

    def _bury(self, process: Process) -> None:
        _log.info("process %d is gone; its grants and bookings end", process.pid)
        for key in self._lease.died(process, self._clock.now()):
            self._answer(key, None)
        self._ledger.died(process)
