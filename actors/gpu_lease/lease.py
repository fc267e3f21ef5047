"""The lease as a state machine: who holds it, who waits, who goes next. Pure: no await, no Ray, no MLX, no clock.

    ask / yield_ / release / withdraw / died      what holders do and what becomes of them
    grant_next                                    the turn of somebody, when nobody holds the lease
    contention                                    what a holder should know now

A new epoch starts with a suspect: the holder that the epoch before had granted, which may still be running.
Nothing is granted until it has come back with a newer request, given the old grant back, or died.
Every method takes `now`, in seconds that never go back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from actors.gpu_lease.messages import Acquire, ClassStatistics, Contention, Grant, LeaseClass, Withdraw
from actors.gpu_lease.process import Process
from actors.gpu_lease.shares import Shares


@dataclass(frozen=True, slots=True)
class Key:
    """A holder in one process; what requests replace one another by."""

    holder: str
    process: Process


@dataclass(frozen=True, slots=True)
class Holding:
    """A grant and the request it answers."""

    grant: Grant
    request: Acquire

    @property
    def key(self) -> Key:
        return key_of(self.request)


def key_of(message: Acquire | Withdraw) -> Key:
    """Whose message it is."""
    return Key(message.holder, Process(message.pid, message.started))


@dataclass(frozen=True, slots=True)
class _Waiter:
    request: Acquire
    since: float


@dataclass(slots=True)
class _Tally:
    grants: int = 0
    wait_s: float = 0.0
    work_s: float = 0.0


class Lease:
    """One epoch."""

    def __init__(
        self, epoch: int, weights: Mapping[LeaseClass, float], slice_s: float, suspect: Holding | None = None
    ) -> None:
        self.epoch = epoch
        self.holding: Holding | None = None
        self.suspect = suspect
        self.deaths = 0
        self._slice_s = slice_s
        self._shares = Shares(weights)
        self._queue: dict[Key, _Waiter] = {}
        self._token = 0
        self._granted_at = 0.0
        self._contended_at: float | None = None
        self._tallies: dict[LeaseClass, _Tally] = {name: _Tally() for name in weights}

    def ask(self, request: Acquire, now: float) -> bool:
        """Queue a request. False: a newer one of the same holder is known, and this one counts for nothing."""
        key = key_of(request)
        known = self._known(key)
        if known is not None:
            if request.attempt <= known.attempt:
                return False
            self._forget(key, now)
        self._enqueue(key, request, now)
        return True

    def yield_(self, grant: Grant, worked_s: float, now: float) -> Acquire | None:
        """Give the grant back and queue up again; the request that waits now. None: the grant was stale."""
        holding = self.holding
        if not self.release(grant, worked_s, now) or holding is None:
            return None
        self._enqueue(holding.key, holding.request, now)
        return holding.request

    def release(self, grant: Grant, worked_s: float, now: float) -> bool:
        """Give the grant back. Whether it was the current one; a stale one is ignored, a suspect's clears it."""
        if self.suspect is not None and self.suspect.grant == grant:
            self.suspect = None
        if self.holding is None or self.holding.grant != grant:
            return False
        self._end_holding(worked_s, now)
        return True

    def withdraw(self, message: Withdraw, now: float) -> None:
        """End the holder's request and what came of it, unless a newer one is known."""
        known = self._known(key_of(message))
        if known is not None and known.attempt <= message.attempt:
            self._forget(key_of(message), now)

    def died(self, process: Process, now: float) -> list[Key]:
        """The process is gone: its grant is void, its requests go. The keys that had waited."""
        if self.suspect is not None and self.suspect.key.process == process:
            self.suspect = None
            self.deaths += 1
        if self.holding is not None and self.holding.key.process == process:
            self.deaths += 1
            self._end_holding(now - self._granted_at, now)
        gone = [key for key in self._queue if key.process == process]
        for key in gone:
            self._forget(key, now)
        return gone

    def grant_next(self, now: float) -> Holding | None:
        """Grant to whoever is next; None while somebody holds, the last epoch's holder may run, or nobody waits."""
        if self.holding is not None or self.suspect is not None or not self._queue:
            return None
        lease_class = self._shares.pick({waiter.request.lease_class for waiter in self._queue.values()})
        key, waiter = next(item for item in self._queue.items() if item[1].request.lease_class == lease_class)
        del self._queue[key]
        self._token += 1
        self.holding = Holding(Grant(key.holder, self.epoch, self._token), waiter.request)
        self._granted_at = now
        self._contended_at = now if self._queue else None
        tally = self._tallies[lease_class]
        tally.grants += 1
        tally.wait_s += now - waiter.since
        return self.holding

    def contention(self, grant: Grant, now: float) -> Contention | None:
        """What the holder of this grant should know; None while it may go on undisturbed."""
        if self.holding is None or self.holding.grant != grant:
            return Contention("void")
        if not self._queue:
            return None
        return Contention("waiter", max(0.0, self._granted_at + self._slice_s - now))

    def knows(self, key: Key) -> bool:
        """Whether the holder waits, holds, or is the suspect."""
        return self._known(key) is not None

    def processes(self) -> set[Process]:
        """Every process whose death would matter."""
        known = [holding.key for holding in (self.holding, self.suspect) if holding is not None]
        return {key.process for key in (*known, *self._queue)}

    def held_s(self, now: float) -> float:
        """How long the current grant has been out; 0 without one."""
        return now - self._granted_at if self.holding is not None else 0.0

    def statistics(self, now: float) -> dict[LeaseClass, ClassStatistics]:
        """Each class's state and sums since the epoch began."""
        found: dict[LeaseClass, ClassStatistics] = {}
        for name, tally in self._tallies.items():
            waits = [now - waiter.since for waiter in self._queue.values() if waiter.request.lease_class == name]
            found[name] = ClassStatistics(
                waiting=len(waits),
                grants=tally.grants,
                wait_s=tally.wait_s,
                oldest_wait_s=max(waits, default=0.0),
                work_s=tally.work_s,
            )
        return found

    def _known(self, key: Key) -> Acquire | None:
        for holding in (self.holding, self.suspect):
            if holding is not None and holding.key == key:
                return holding.request
        waiter = self._queue.get(key)
        return waiter.request if waiter else None

    def _forget(self, key: Key, now: float) -> None:
        if self.suspect is not None and self.suspect.key == key:
            self.suspect = None
        if self.holding is not None and self.holding.key == key:
            self._end_holding(now - self._granted_at, now)
        self._queue.pop(key, None)
        if not self._queue:
            self._contended_at = None

    def _enqueue(self, key: Key, request: Acquire, now: float) -> None:
        if self.holding is not None and self._contended_at is None:
            self._contended_at = now
            self._shares.pass_alone(self.holding.request.lease_class, now - self._granted_at)
        self._queue[key] = _Waiter(request, now)

    def _end_holding(self, worked_s: float, now: float) -> None:
        assert self.holding is not None
        lease_class = self.holding.request.lease_class
        worked_s = min(max(worked_s, 0.0), now - self._granted_at)
        self._tallies[lease_class].work_s += worked_s
        if self._contended_at is None:
            self._shares.pass_alone(lease_class, now - self._granted_at)
        else:
            # Only the time in which somebody waited counts: an hour alone must not be paid back afterwards.
            self._shares.charge(lease_class, min(worked_s, now - self._contended_at))
        self.holding = None
        self._contended_at = None
