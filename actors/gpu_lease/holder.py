"""What an engine uses: a thread that runs MLX on one side, the event loop that talks to the lease on the other.

    while True:                         # the engine thread
        lease.hold()                    # free while the grant is here
        step()
        if lease.must_yield:            # a plain attribute
            finish what is in flight
            lease.give_way()
        if nothing to do:
            lease.idle()                # keeps the grant until somebody wants it

`_working` is the hand-shake. The engine clears it; it sets it where the grant is here, else the loop does so when it
hands a grant to the blocked engine. While it is set, the loop takes nothing away, it only asks (`must_yield`). While
it is not set, the loop may take the grant, under the lock.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from actors.errors import ShuttingDown
from actors.gpu_lease.link import LeaseLink
from actors.gpu_lease.messages import Contention, Grant, LeaseClass, Reserved

_log = logging.getLogger(__name__)
T = TypeVar("T")


class LeaseHolder:
    """One engine's permission to run MLX. Made anywhere; `hold`, `give_way` and `idle` belong to one engine thread.

    The loop must keep running until `closed` has returned. An engine that stops for whatever reason calls `idle`
    or `close`, else its process keeps the lease until it ends.
    """

    def __init__(
        self,
        handle_factory: Callable[[], Any],
        holder: str,
        lease_class: LeaseClass,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.must_yield = False
        """The engine should finish its step and call `give_way` (or `idle`)."""
        self.wait_s = 0.0
        """Seconds the engine was blocked."""
        self.hold_s = 0.0
        """Seconds the engine worked, without the work that goes on now."""
        self._loop = loop
        self._link = LeaseLink(handle_factory, holder, lease_class)
        self._lock = threading.Condition()
        self._grant: Grant | None = None
        self._working = False
        self._wanted = False
        self._pressed = False
        self._closed = False
        self._since = 0.0
        self._worked_s = 0.0
        self._stirred = asyncio.Event()
        self._closing = asyncio.Event()
        self._running = asyncio.run_coroutine_threadsafe(self._run(), loop)

    def hold(self) -> None:
        """Block until this process may run MLX; one attribute read while the engine already works.

        Raises:
            ShuttingDown: the holder was closed; nothing may be run.
        """
        if self._working:
            return
        with self._lock:
            self._wait_for_grant()

    def give_way(self) -> None:
        """Let others work and block for the next turn; returns at once while nobody waits.

        Nothing of the engine's may be in flight on the device.

        Raises:
            ShuttingDown: the holder was closed; nothing may be run.
        """
        with self._lock:
            if self._working:
                if not self._pressed and not self._closed:
                    return
                self._stop()
                self.must_yield = True
            self._wait_for_grant()

    def idle(self) -> None:
        """Say that the engine has no work and nothing in flight. Does not block; may be repeated."""
        with self._lock:
            self._stop()

    def close(self) -> None:
        """Give the lease back for good as soon as the engine stops; a blocked engine gets `ShuttingDown`.

        Does not block; from any thread; may be repeated.
        """
        with self._lock:
            self._closed = True
            self.must_yield = True
            self._lock.notify_all()
        self._on_loop(self._closing.set)
        self._on_loop(self._stirred.set)

    async def closed(self) -> None:
        """Return when the lease actor knows that this holder is gone. Cancelling stops only the waiting."""
        await asyncio.wait({asyncio.wrap_future(self._running)})

    async def reserve(self, purpose: str, size: int) -> Reserved:
        """Book `size` resident bytes for this process; a refusal says why. Waits while the lease actor is away."""
        return await self._link.reserve(purpose, size)

    async def unreserve(self, purpose: str) -> None:
        """End a booking; an unknown one is ignored. Waits while the lease actor is away."""
        await self._link.unreserve(purpose)

    # The engine's side; the lock is held.

    def _wait_for_grant(self) -> None:
        started = time.monotonic()
        if self._grant is not None and not self.must_yield:
            self._working = True
        else:
            self._wanted = True
            self._on_loop(self._stirred.set)
        while not self._closed and not self._working:
            self._lock.wait()
        self._wanted = False
        self._since = time.monotonic()
        self.wait_s += self._since - started
        if self._closed:
            self._stop()
            raise ShuttingDown("the server is shutting down")

    def _stop(self) -> None:
        if not self._working:
            return
        self._working = False
        worked_s = time.monotonic() - self._since
        self._worked_s += worked_s
        self.hold_s += worked_s
        if self._pressed or self._closed:
            self._on_loop(self._stirred.set)

    def _on_loop(self, call: Callable[[], None]) -> None:
        # A loop that is closed belongs to a process that ends, which gives the lease back by itself.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call)

    # The loop's side.

    async def _run(self) -> None:
        try:
            while not self._closed:
                await self._until(lambda: self._wanted or self._closed)
                grant = await self._unless_closed(self._link.acquire())
                while grant is not None:
                    grant = await self._serve(grant)
            await self._until(lambda: not self._working)
            await self._link.withdraw()
        except Exception:
            _log.exception("the holder's side of the GPU lease failed; its engine stops")
            raise
        finally:
            self.close()

    async def _serve(self, grant: Grant) -> Grant | None:
        """One grant, from the hand-over to the engine until it is given back; the next one if the engine wants it."""
        self._hand_to_engine(grant)
        contention = await self._unless_closed(self._link.contended(grant))
        if contention is None:
            return None
        worked_s = await self._get_back(contention)
        if not self._wanted:
            await self._unless_closed(self._link.release(grant, worked_s))
            return None
        if contention.reason == "void":
            return await self._unless_closed(self._link.acquire())
        return await self._unless_closed(self._link.yield_(grant, worked_s))

    def _hand_to_engine(self, grant: Grant) -> None:
        with self._lock:
            self._grant = grant
            self._worked_s = 0.0
            self.must_yield = self._closed
            # A blocked engine works from here on: it must not lose the grant again while its thread wakes up.
            self._working = self._wanted
            self._since = time.monotonic()
            self._lock.notify_all()

    async def _get_back(self, contention: Contention) -> float:
        """Wait until the engine has stopped and take the grant from it; the seconds it worked."""
        with self._lock:
            self._pressed = True
        demand = self._loop.call_later(contention.slice_left_s, setattr, self, "must_yield", True)
        try:
            while not self._take():
                await self._until(lambda: not self._working)
        finally:
            demand.cancel()
        return self._worked_s

    def _take(self) -> bool:
        with self._lock:
            if self._working:
                return False
            self._grant = None
            self._pressed = False
            return True

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._stirred.clear()
            await self._stirred.wait()

    async def _unless_closed(self, call: Coroutine[Any, Any, T]) -> T | None:
        """The call's result; None when the holder was closed first, and the call was cancelled."""
        calling = asyncio.ensure_future(call)
        closing = asyncio.ensure_future(self._closing.wait())
        try:
            await asyncio.wait({calling, closing}, return_when=asyncio.FIRST_COMPLETED)
            return calling.result() if calling.done() else None
        finally:
            calling.cancel()
            closing.cancel()
