"""The SSD writer: carries messages to the directory. Its thread waits for the disk, its event loop never does."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from actors import ids, priority
from actors.models.folders import cache_folder
from actors.settings import SsdCacheSettings
from actors.spill.files import Files
from actors.spill.messages import Attach, Attached, Remove, SetAside, SpillStatistics, Touch, Write, Written
from actors.spill.store import NoRoom, Store, Unavailable

log = logging.getLogger("troupe.spill")

T = TypeVar("T")


def folder_of(settings: SsdCacheSettings) -> Path:
    """Where the records are."""
    return Path(settings.dir).expanduser() if settings.dir else cache_folder() / "prefixes"


class SpillWriter:
    """Owns the directory of the SSD tier; never touches MLX.

    A directory that cannot be used is tried again with every `attach`. Cancelling a call does not undo it: what the
    thread has begun it finishes, and a repeated write finds its records there.
    """

    def __init__(self, settings: SsdCacheSettings, files: Files | None = None) -> None:
        self.incarnation = ids.incarnation()
        self._settings = settings
        self._store = Store(folder_of(settings), settings.max_bytes, files)
        self._thread = ThreadPoolExecutor(1, "spill", initializer=priority.step_back)
        self._unavailable: str | None = "nobody has asked for it yet"
        self._failing: str | None = None
        self._pending = self._pending_bytes = 0
        self._written = self._written_bytes = self._failed = self._refused = 0
        self._longest, self._stale = 0, True
        self._handling = 0

    async def attach(self, message: Attach) -> Attached:
        """What is durable of a model. Takes the directory if it is free; may be repeated."""
        with self._message():
            return await self._do(lambda: self._attach(message))

    async def write(self, message: Write) -> Written:
        """Make records durable. Returns when they are, or at once when the queue is full."""
        size = sum(draft.payload_bytes for draft in message.drafts)
        with self._message():
            # A message that is larger than the whole queue is taken when the queue is empty.
            if self._pending and self._pending_bytes + size > self._settings.queue_bytes:
                self._refused += 1
                return Written(self.incarnation, busy=True)
            self._pending += len(message.drafts)
            self._pending_bytes += size
            try:
                return await self._do(lambda: self._write(message))
            finally:
                self._pending -= len(message.drafts)
                self._pending_bytes -= size

    async def touch(self, message: Touch) -> None:
        """Note a use. May be repeated."""
        with self._message():
            await self._do(lambda: self._if_open(lambda: self._store.touch(message.names)))

    async def set_aside(self, message: SetAside) -> None:
        """Put a damaged record where nobody takes it for whole. May be repeated."""

        def move() -> None:
            if message.name in self._store.catalog:
                self._store.set_aside(message.name, message.reason)
                self._stale = True

        with self._message():
            await self._do(lambda: self._if_open(move))

    async def remove(self, message: Remove) -> None:
        """Delete records. May be repeated."""

        def delete() -> None:
            self._store.remove(message.names)
            self._stale = True

        with self._message():
            await self._do(lambda: self._if_open(delete))

    async def statistics(self) -> SpillStatistics:
        """State now. Does not wait for the disk: the longest prefix may be that of a moment ago while it works."""
        with self._message():
            if self._stale and not self._pending:
                await self._do(self._measure)
            store = self._store
            return SpillStatistics(
                directory=str(store.folder),
                available=store.is_open,
                problem=self._unavailable or self._failing,
                entries=len(store.catalog),
                size=store.catalog.size,
                max_size=self._settings.max_bytes,
                written_records=self._written,
                written_bytes=self._written_bytes,
                pending_records=self._pending,
                pending_bytes=self._pending_bytes,
                failed_writes=self._failed,
                refused_writes=self._refused,
                set_aside=store.set_aside_count,
                ssd_evictions=store.evictions,
                longest_prefix_tokens=self._longest,
                mailbox_depth=self._handling,
            )

    async def close(self) -> None:
        """Finish what has been begun and give the directory to others. May be repeated."""
        with contextlib.suppress(RuntimeError):  # the thread has ended already
            await self._do(self._store.close)
        self._thread.shutdown()

    # In the thread.

    def _attach(self, message: Attach) -> Attached:
        if not self._store.is_open:
            self._open()
        records = tuple(record for record in self._store.catalog if record.model == message.model)
        return Attached(self.incarnation, str(self._store.records), records, self._unavailable)

    def _open(self) -> None:
        try:
            self._store.open()
        except Unavailable as error:
            if str(error) != self._unavailable:
                log.error("ssd cache: not in use: %s", error)
            self._unavailable = str(error)
            return
        catalog = self._store.catalog
        log.info("ssd cache: %s holds %d records, %.0f MB", self._store.folder, len(catalog), catalog.size / 1e6)
        self._unavailable, self._stale = None, True

    def _write(self, message: Write) -> Written:
        if not self._store.is_open:
            return Written(self.incarnation, failure=self._unavailable or "the directory is closed")
        try:
            written = self._store.write(message.drafts)
        except NoRoom as error:
            self._refused += 1
            log.info("ssd cache: a prefix is not kept: %s", error)
            return Written(self.incarnation, no_room=True)
        except OSError as error:
            return Written(self.incarnation, failure=self._refused_by_disk(error))
        if self._failing is not None:
            log.info("ssd cache: %s takes records again", self._store.folder)
        self._failing, self._stale = None, True
        self._written += len(written.durable)
        self._written_bytes += written.size
        return Written(self.incarnation, written.durable, written.removed)

    def _refused_by_disk(self, error: OSError) -> str:
        """Counted every time, and logged when the reason is a new one."""
        reason = f"cannot write to {self._store.folder}: {error.strerror or error}"
        if reason != self._failing:
            log.error("ssd cache: %s; serving goes on without it", reason)
        self._failing = reason
        self._failed += 1
        return reason

    def _measure(self) -> None:
        self._longest, self._stale = self._store.catalog.longest_tokens(), False

    def _if_open(self, action: Callable[[], None]) -> None:
        if self._store.is_open:
            action()

    async def _do(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    @contextlib.contextmanager
    def _message(self) -> Iterator[None]:
        self._handling += 1
        try:
            yield
        finally:
            self._handling -= 1
