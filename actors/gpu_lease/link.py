"""A holder's line to the lease actor: calls that survive the actor's death. Runs on the holder's event loop."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Iterator
from typing import Any

from ray.exceptions import ActorDiedError

from actors.gpu_lease.messages import (
    Acquire,
    Contention,
    Grant,
    LeaseClass,
    Release,
    Reserve,
    Reserved,
    Unreserve,
    Withdraw,
    Yield,
)
from actors.gpu_lease.process import this_process

_log = logging.getLogger(__name__)
_attempts = itertools.count(1)
_LOST = object()


class LeaseLink:
    """One holder's calls. All of them may be cancelled; what a cancelled `acquire` or `yield_` leads to is ended by
    `withdraw`. Only `acquire`, `release` and the ledger's calls repeat themselves until the actor answers.
    """

    def __init__(self, connect: Callable[[], Any], holder: str, lease_class: LeaseClass) -> None:
        self._connect = connect
        self._holder = holder
        self._class: LeaseClass = lease_class
        self._process = this_process()
        self._handle: Any = None
        self._attempt = 0

    async def acquire(self) -> Grant:
        """Wait for a grant, through any number of restarts of the actor."""
        for pause in _pauses():
            self._attempt = next(_attempts)
            process = self._process
            request = Acquire(self._holder, self._class, process.pid, process.started, self._attempt)
            grant = await self._try("acquire", request)
            if isinstance(grant, Grant):
                return grant
            await asyncio.sleep(pause)
        raise AssertionError("pauses never end")

    async def yield_(self, grant: Grant, worked_s: float) -> Grant:
        """Give way and wait for the next grant."""
        answer = await self._try("yield_", Yield(grant, worked_s))
        return answer if isinstance(answer, Grant) else await self.acquire()

    async def contended(self, grant: Grant) -> Contention:
        """Park until the grant is in demand, or void because the actor says so or is gone."""
        answer = await self._try("contended", grant)
        return answer if isinstance(answer, Contention) else Contention("void")

    async def release(self, grant: Grant, worked_s: float) -> None:
        """Give way for good, and make sure the actor knows, also one that knows the grant from its journal."""
        await self._insist("release", Release(grant, worked_s))

    async def withdraw(self) -> None:
        """Say that this holder wants nothing any more; gives up when the actor was ended for good."""
        if self._handle is None:
            return
        message = Withdraw(self._holder, self._process.pid, self._process.started, self._attempt)
        for pause in _pauses():
            if await self._try("withdraw", message) is not _LOST or self._handle is None:
                return
            await asyncio.sleep(pause)

    async def reserve(self, purpose: str, size: int) -> Reserved:
        """Book resident bytes for this process."""
        message = Reserve(self._holder, purpose, size, self._process.pid, self._process.started)
        return await self._insist("reserve", message)

    async def unreserve(self, purpose: str) -> None:
        """End a booking."""
        await self._insist("unreserve", Unreserve(self._holder, purpose))

    async def _insist(self, method: str, message: object) -> Any:
        for pause in _pauses():
            answer = await self._try(method, message)
            if answer is not _LOST:
                return answer
            await asyncio.sleep(pause)

    async def _try(self, method: str, message: object) -> Any:
        """One call; `_LOST` when nobody can say whether it was carried out."""
        try:
            if self._handle is None:
                self._handle = await asyncio.to_thread(self._connect)
            return await getattr(self._handle, method).remote(message)
        except ActorDiedError:
            _log.warning("the GPU lease actor was ended; %s looks for a new one", self._holder)
            self._handle = None
        except Exception as error:
            # Whatever it was, the engine stays stopped and the call is made anew, so nothing is lost but time.
            _log.warning("%s: no answer from the GPU lease to %s: %s", self._holder, method, error)
        return _LOST


def _pauses() -> Iterator[float]:
    """Seconds between tries: short at first, since the actor is back within a second, then one second for ever."""
    pause = 0.05
    while True:
        yield pause
        pause = min(1.0, 2 * pause)
