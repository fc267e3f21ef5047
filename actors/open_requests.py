"""The requests that an actor has open, and how it stops taking more. Event loop only."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class OpenRequests:
    """A count, and the end of it."""

    def __init__(self) -> None:
        self.closed = False
        """Whether no more are taken."""
        self._count = 0
        self._none = asyncio.Event()
        self._none.set()

    def __len__(self) -> int:
        return self._count

    @contextmanager
    def counted(self) -> Iterator[None]:
        """One more within the block."""
        self._count += 1
        self._none.clear()
        try:
            yield
        finally:
            self._count -= 1
            if self._count == 0:
                self._none.set()

    async def drain(self) -> None:
        """Take no more, and return when the last one has ended. Cancelling stops only the waiting."""
        self.closed = True
        await self._none.wait()
