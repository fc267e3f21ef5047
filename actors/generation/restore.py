"""Prefixes on their way back from the SSD: read, verified and joined in a thread of their own."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from actors.generation.tensors import Frozen, freeze
from actors.spill.catalog import Piece, Prefix
from actors.spill.codec import Damaged, Loaded, load
from actors.spill.record import Record, Tensor
from actors.spill.store import SUFFIX

TOKEN_AXIS = 2
"""Of keys and values: batch, heads, tokens, size."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A record that cannot be used."""

    record: Record
    """Which."""
    reason: str
    """What is wrong with it."""


class BrokenPrefix(Exception):
    """Records cannot be used.

    Args:
        broken: all of the prefix's that cannot.
    """

    def __init__(self, broken: list[Broken]) -> None:
        super().__init__(broken)
        self.broken = broken


class _Broken(Exception):
    """One of them."""


class Restorer:
    """Event loop only; the reading is done by one thread.

    Args:
        model: as in `Record`.
    """

    def __init__(self, model: str) -> None:
        self._model = model
        self._thread = ThreadPoolExecutor(1, "restore")
        self._running: dict[tuple[str, ...], asyncio.Future[Frozen]] = {}
        self.restores = 0
        """Prefixes read since start."""
        self.tokens = 0
        """Their tokens."""
        self.last_ms = 0.0
        """How long the last one took."""

    async def restore(self, directory: Path, prefix: Prefix) -> Frozen:
        """Read a prefix. Callers who want the same one share the work. Cancelling abandons only the waiting.

        Raises:
            BrokenPrefix: a file is gone or damaged.
        """
        key = (*prefix.names, str(prefix.length))
        running = self._running.get(key)
        if running is None:
            loop = asyncio.get_running_loop()
            running = loop.run_in_executor(self._thread, self._read, directory, prefix)
            self._running[key] = running
            running.add_done_callback(lambda _: self._running.pop(key, None))
        return await asyncio.shield(running)

    def close(self) -> None:
        """End the thread; who still waits is cancelled."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _read(self, directory: Path, prefix: Prefix) -> Frozen:
        started = time.monotonic()
        joined = _Joined(prefix.length)
        broken: list[Broken] = []
        # All are looked at even when one is broken: the others would be found out one restart after the other.
        for piece in prefix.pieces:
            try:
                joined.add(piece, self._load(directory, piece.record))
            except _Broken as error:
                broken.append(Broken(piece.record, str(error)))
        try:
            state = None if prefix.state is None else self._load(directory, prefix.state)
        except _Broken as error:
            assert prefix.state is not None
            raise BrokenPrefix([*broken, Broken(prefix.state, str(error))]) from None
        if broken:
            raise BrokenPrefix(broken)
        tensors = {**joined.tensors, **(state.tensors if state else {})}
        frozen = freeze(prefix.length, tensors, state.extra if state else "")
        self.restores += 1
        self.tokens += prefix.length
        self.last_ms = (time.monotonic() - started) * 1000
        return frozen

    def _load(self, directory: Path, record: Record) -> Loaded:
        try:
            loaded = load(directory / f"{record.name}{SUFFIX}", self._model)
        except FileNotFoundError:
            raise _Broken("its file is gone") from None
        except (Damaged, OSError) as error:
            raise _Broken(str(error)) from error
        if loaded.record != record:
            raise _Broken("it is not what the index says")
        return loaded


class _Joined:
    """Segments put side by side, each copied to its place as it comes."""

    def __init__(self, length: int) -> None:
        self._length = length
        self.tensors: dict[str, Tensor] = {}

    def add(self, piece: Piece, loaded: Loaded) -> None:
        own = slice(piece.start - piece.record.start, piece.stop - piece.record.start)
        if self.tensors and loaded.tensors.keys() != self.tensors.keys():
            raise _Broken("it has other layers than the one before it")
        for name, part in loaded.tensors.items():
            whole = self.tensors.get(name)
            if whole is None:
                whole = self.tensors[name] = Tensor(name, part.dtype, self._room(part))
            place = whole.data[:, :, piece.start : piece.stop]
            values = part.data[:, :, own]
            if (place.shape, whole.dtype) != (values.shape, part.dtype):
                raise _Broken(f"{name} does not fit the one before it")
            np.copyto(place, values)

    def _room(self, part: Tensor) -> np.ndarray:
        shape = list(part.data.shape)
        shape[TOKEN_AXIS] = self._length
        return np.empty(shape, part.data.dtype)
