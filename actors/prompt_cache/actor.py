"""The prompt-cache manager: carries messages to the index, and looks after it while idle."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator

from actors import ids
from actors.clock import Clock, MonotonicClock
from actors.ids import Incarnation
from actors.prompt_cache.index import PrefixIndex
from actors.prompt_cache.messages import (
    CacheStatistics,
    Discard,
    Lookup,
    Match,
    Publish,
    Published,
    Reconcile,
    Sweep,
    Swept,
    Unpin,
)
from actors.settings import PromptCacheSettings

logger = logging.getLogger(__name__)

INSPECTION_S = 60.0
"""Seconds between two looks at the index."""


class PromptCacheManager:
    """Knows every stored prefix of the machine; holds no tensors.

    No method waits for anything, so cancelling a call never leaves a message half done. A message with malformed
    tokens raises ValueError and changes nothing.
    """

    def __init__(
        self,
        settings: PromptCacheSettings,
        clock: Clock | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._settings = settings
        self._clock = clock or MonotonicClock()
        self._sleep = sleep
        self._handling = 0
        self._inspector: asyncio.Task[None] | None = None
        self._begin()

    @property
    def incarnation(self) -> Incarnation:
        """Life of what is known; a new one means that the schedulers have to reconcile."""
        return self._incarnation

    async def lookup(self, message: Lookup) -> Match:
        """The longest usable prefix, pinned until `unpin`. Repeating it pins once more in the same name.

        A pin ends by itself when its scheduler reconciles, or an hour after its last lookup.
        """
        with self._message():
            shared = self._index.shared(message)
            entry, length = self._index.lookup(message)
            return Match(self._incarnation, entry, length, shared)

    async def unpin(self, message: Unpin) -> None:
        """End one pin. May be repeated."""
        with self._message():
            self._index.unpin(message)

    async def publish(self, message: Publish) -> Published:
        """Take in an entry, and say what its scheduler should free. May be repeated."""
        with self._message():
            return Published(self._incarnation, self._index.publish(message))

    async def reconcile(self, message: Reconcile) -> Published:
        """Replace all that is known of a scheduler, and say what it should free. May be repeated."""
        with self._message():
            return Published(self._incarnation, self._index.reconcile(message))

    async def sweep(self, message: Sweep) -> Swept:
        """Name what is idle, and make room if the machine is short of memory. Repeating it makes more room."""
        with self._message():
            drop, idle = self._index.sweep(message)
            return Swept(self._incarnation, drop, idle)

    async def discard(self, message: Discard) -> None:
        """Forget entries that their scheduler has let go. May be repeated."""
        with self._message():
            self._index.discard(message)

    async def close_session(self, session: str) -> None:
        """End a session's claim on its entries, which stay. May be repeated; unknown sessions are ignored."""
        with self._message():
            self._index.close_session(session)

    async def statistics(self) -> CacheStatistics:
        """State of the RAM tier now."""
        with self._message():
            return self._index.statistics(self._handling)

    def inspect(self) -> None:
        """Drop forgotten pins and check the index; a broken one is logged and begun anew.

        A new life makes every scheduler reconcile, which rebuilds the index from what is really held.
        """
        if expired := self._index.expire_pins():
            logger.warning("prompt cache: dropped %d pins that nobody ended", expired)
        if faults := self._index.check():
            logger.critical("prompt cache: the index is broken and begins anew: %s", "; ".join(faults))
            self._begin()

    def close(self) -> None:
        """Stop the inspections. May be repeated; a later message starts them again."""
        if self._inspector is not None:
            self._inspector.cancel()
            self._inspector = None

    def _begin(self) -> None:
        self._incarnation = ids.incarnation()
        settings = self._settings
        self._index = PrefixIndex(settings.max_bytes, settings.min_tokens, self._clock, settings.idle_s)

    @contextlib.contextmanager
    def _message(self) -> Iterator[None]:
        # Started here and not in __init__, which may run before there is an event loop.
        if self._inspector is None:
            self._inspector = asyncio.create_task(self._inspect_now_and_then(), name="prompt-cache-inspector")
        self._handling += 1
        try:
            yield
        finally:
            self._handling -= 1

    async def _inspect_now_and_then(self) -> None:
        while True:
            await self._sleep(INSPECTION_S)
            try:
                self.inspect()
            except Exception:
                logger.exception("prompt cache: the inspection itself failed")
                self._begin()
