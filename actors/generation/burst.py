"""How long the first of several requests waits for the others, so that they share its pass."""

from __future__ import annotations

import asyncio

from actors.ids import IngressId

LONGEST_S = 0.1
"""Nobody waits longer for company, however slow a pass is."""


class Burst:
    """What the ingress replicas said they still prepare. Event loop only."""

    def __init__(self) -> None:
        self._coming: dict[IngressId, int] = {}
        self._news = asyncio.Event()

    @property
    def coming(self) -> int:
        """Requests that were being prepared when their replica last spoke."""
        return sum(self._coming.values())

    def submitted(self, ingress: IngressId, coming: int) -> None:
        """A replica has submitted a request and prepares so many others."""
        self._coming[ingress] = coming
        self._news.set()

    async def gathered(self, worth_s: float) -> None:
        """Return when all have come, or after `worth_s` seconds. Cancelling stops only the waiting.

        Those who have not come by then may never do: they failed, or their clients left. They are not waited for again.
        """
        try:
            async with asyncio.timeout(min(worth_s, LONGEST_S)):
                while self.coming:
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            self._coming.clear()
