"""Looks after a scheduler's stored prefixes: gives some up when memory is short, and idle ones that are durable."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from actors.clock import Clock, MonotonicClock
from actors.generation.memory import Memory
from actors.generation.prefixes import Prefixes
from actors.prompt_cache.messages import Entry
from actors.settings import PromptCacheSettings

log = logging.getLogger("troupe.generation.housekeeping")

LOOK_S = 5.0
"""Seconds between two looks at the memory."""

LEAST_DEMOTION_S = 30.0
"""Seconds at least between two searches for idle prefixes."""


class Housekeeping:
    """Event loop only.

    Args:
        prefixes: what is stored.
        settings: when memory counts as short, and what counts as idle.
        durable: whether a prefix can be read again from elsewhere; None where nothing ever is.
        measure: how much memory is in use.
        clock: tells when to search for idle prefixes.
        sleep: waits between two looks.
    """

    def __init__(
        self,
        prefixes: Prefixes,
        settings: PromptCacheSettings,
        durable: Callable[[Entry], bool] | None,
        measure: Callable[[], Memory],
        clock: Clock | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._prefixes = prefixes
        self._settings = settings
        self._durable = durable
        self._measure = measure
        self._clock = clock or MonotonicClock()
        self._sleep = sleep
        self._every_s = max(LEAST_DEMOTION_S, settings.idle_s / 4)
        self._searched = self._clock.now()
        self._short = False

    async def run(self) -> None:
        """Look around until cancelled. Never raises anything else."""
        while True:
            await self._sleep(LOOK_S)
            try:
                await self.look()
            except Exception:
                log.exception("stored prefixes could not be looked after this time")

    async def look(self) -> None:
        """Look around once. The manager is asked only if there is a reason to."""
        if not self._prefixes.held:
            return
        shortage = self._measure().shortage(self._settings.pressure)
        self._tell(shortage)
        due = self._durable is not None and self._clock.now() - self._searched >= self._every_s
        if shortage or due:
            self._searched = self._clock.now()
            await self._prefixes.sweep(shortage, self._durable or _never)

    def _tell(self, shortage: int) -> None:
        if shortage and not self._short:
            log.warning("memory is short by %.0f MB; stored prefixes are given up", shortage / 1e6)
        self._short = shortage > 0


def _never(entry: Entry) -> bool:
    return False
