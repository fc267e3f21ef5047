"""Signs of life on a stream whose answer has not begun: a long prompt, or a long line before it."""

from __future__ import annotations

import asyncio

from actors.errors import ClientGone
from routes.sse import EventStream


class Pulse:
    """Beats from `start` to `stop`.

    Args:
        events: the stream; nobody else may write to it meanwhile.
        beat: what is written.
        every_s: seconds between two beats.
    """

    def __init__(self, events: EventStream, beat: bytes, every_s: float) -> None:
        self._events = events
        self._beat = beat
        self._every_s = every_s
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """The first beat comes after one interval."""
        self._task = asyncio.create_task(self._go_on())

    def stop(self) -> None:
        """No beat is begun after this. May be repeated."""
        if self._task is not None:
            self._task.cancel()

    async def _go_on(self) -> None:
        while True:
            await asyncio.sleep(self._every_s)
            try:
                await self._events.write(self._beat)
            except ClientGone:
                return  # whoever answers the client learns of it too
