"""RAM for sound that is not transcribed yet, shared by the clips and the live sessions of one transcriber.

Sound is decoded a piece at a time into spectrograms, 45 MB an hour at 80 bands, which wait for the model. A file of
some kilobytes may be hours, so what counts is what was decoded: above the budget clips wait as they came, and chunks
of sessions are refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Protocol

from actors.errors import QueueFull
from actors.heap import trim_soon

_MUCH = 64 * 2**20
"""Bytes that are worth to be given back to the system."""


class Sound(Protocol):
    """Something that keeps sound, or what was made of it."""

    @property
    def nbytes(self) -> int:
        """Bytes that it keeps now."""
        ...


class AudioBudget:
    """All methods are called on one event loop.

    Args:
        limit: bytes. What is decoded when it is reached may go beyond, by one clip a decoder.
        decoders: clips that are decoded at once.
    """

    def __init__(self, limit: int, decoders: int) -> None:
        self._limit = limit
        self._line = asyncio.Lock()
        """Held by the clip that is next."""
        self._decoders, self._takers = asyncio.Semaphore(decoders), asyncio.Semaphore(decoders)
        """Turns of clips, and of sessions' chunks, which never wait behind a clip."""
        self._kept: set[Sound] = set()
        self._changed = asyncio.Event()
        self._most = 0
        """Bytes at most since memory was given back."""

    @property
    def used(self) -> int:
        """Bytes that are kept."""
        return sum(sound.nbytes for sound in self._kept)

    @property
    def full(self) -> bool:
        return self.used >= self._limit

    @contextmanager
    def counted(self, sound: Sound) -> Iterator[None]:
        """Within the block it counts."""
        self._kept.add(sound)
        try:
            yield
        finally:
            self._kept.discard(sound)
            self.changed()
            if self._most - self.used > _MUCH:
                self._most = self.used
                trim_soon()

    def changed(self) -> None:
        """Less may be kept than before."""
        self._changed.set()
        self._most = max(self._most, self.used)

    @asynccontextmanager
    async def decoding(self) -> AsyncIterator[None]:
        """A turn to decode a clip; within the block it is taken. First come, first served; cancelling gives it up."""
        async with self._line:
            await self._room()
        try:
            yield
        finally:
            self._decoders.release()
            self.changed()

    @asynccontextmanager
    async def taking(self, raw: bool) -> AsyncIterator[None]:
        """A turn to take a session's chunk, at once if there is nothing to decode; clips never hold it up.

        Raises:
            QueueFull: the budget is used up.
        """
        self._check()
        if raw:
            yield
            return
        async with self._takers:
            self._check()
            yield
            self.changed()

    async def _room(self) -> None:
        """Take a clip's turn to decode when there is one and room too; none is held while the other is missing."""
        while True:
            while self.full:
                self._changed.clear()
                await self._changed.wait()
            await self._decoders.acquire()
            if not self.full:
                return
            self._decoders.release()

    def _check(self) -> None:
        if self.full:
            raise QueueFull("too much sound waits to be transcribed; send this chunk again later")
