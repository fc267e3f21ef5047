"""The scheduler's dealings with the SSD writer: what is published is made durable behind the requests.

A prefix waits here until every record it needs is on the disk. Meanwhile its tensors stay on the shelf, even when the
manager has given them up, up to a bound in bytes; past that the oldest are dropped, and counted. A disk that fails is
tried again every few seconds; a writer that died is given whatever the RAM still holds.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from actors.generation.checkpoints import Notes, read_note
from actors.generation.export import Order, Parcel
from actors.generation.loading import Loaded
from actors.generation.messages import Flushed, SpillingStatistics
from actors.generation.restore import BrokenPrefix, Restorer
from actors.generation.tensors import Frozen
from actors.generation.unwritten import Pending, Unwritten
from actors.ids import EntryId, Incarnation
from actors.prompt_cache.messages import Entry
from actors.settings import SsdCacheSettings
from actors.spill import record
from actors.spill.catalog import Catalog, Layout, Prefix
from actors.spill.messages import Attach, Attached, Remove, SetAside, Touch, Write, Written
from actors.spill.plan import Slot, Snapshot

log = logging.getLogger("troupe.generation.spilling")

RETRY_S = 5.0
"""Between two tries of what has failed."""

BATCH_BYTES = 16 * 2**20
"""Arrays of one message, about."""

PATIENCE_S = 300.0
"""How long the writer may take for one message before it counts as failed."""

START_PATIENCE_S = 10.0
"""How long a start waits for the writer; after that it goes on without, and the writer is attached when it answers."""


@dataclass(frozen=True, slots=True)
class Ports:
    """The way to the engine and to what is held in RAM."""

    order: Callable[[Order], None]
    """Asks the engine for arrays."""
    drop: Callable[[EntryId], None]
    """Tells the engine to free a prefix."""
    held: Callable[[], Iterable[Entry]]
    """Every prefix that the manager knows of here."""


class Spilling:
    """Event loop only.

    Args:
        writer: handle of the SSD writer.
        model: as in `Record`.
        layout: what the model's prefixes consist of.
        settings: bounds.
        ports: the rest of the scheduler.
    """

    def __init__(self, writer: Any, model: str, layout: Layout, settings: SsdCacheSettings, ports: Ports) -> None:
        self._writer = writer
        self.model = model
        self._layout = layout
        self._settings = settings
        self._ports = ports
        self._catalog = Catalog()
        self._directory: Path | None = None
        self._known: Incarnation | None = None
        self._unwritten = Unwritten(settings.queue_bytes)
        self._notes = Notes(model)
        self._restorer = Restorer(model)
        self._wake = asyncio.Event()
        self._settled = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Learn what is durable. Never raises; a writer that does not answer is asked again later."""
        try:
            async with asyncio.timeout(START_PATIENCE_S):
                await self._attach()
        except Exception as error:
            log.warning("the SSD writer does not answer yet: %s", error or type(error).__name__)
        self._spawn(self._work())

    def close(self) -> None:
        """Stop writing and reading. What is pending stays unwritten."""
        for task in self._tasks:
            task.cancel()
        self._restorer.close()

    # What the rest of the scheduler says.

    def offer(self, entry: Entry) -> None:
        """A prefix is on the shelf; it is made durable as soon as possible."""
        if self._directory is None and self._known is not None:
            return  # not usable now; everything held is offered when it is
        snapshot = Snapshot(self.model, self._seed(entry.partition), entry.tokens, _ends(entry))
        self._unwritten.add(Pending(entry, snapshot))
        self._wake.set()

    def release(self, entry: EntryId) -> bool:
        """The manager has given a prefix up. False when its tensors are still needed; they are freed later then."""
        kept, dropped = self._unwritten.release(entry, self._layout)
        for pending in dropped:
            self._ports.drop(pending.entry.entry)
        self._wake.set()  # a flush may wait for it
        return not kept

    async def saved(self, key: bytes) -> list[int]:
        """What was generated in another life for a key of `checkpoints.key_of`."""
        note = self._catalog.note(key)
        return [] if note is None or self._directory is None else await read_note(self._directory, note)

    def note(self, key: bytes, entry: EntryId, tokens: tuple[int, ...]) -> None:
        """An answer has come so far; the note is written once the entry is durable."""
        if self._directory is not None:
            self._notes.offer(key, entry, tokens)
            self._wake.set()

    def completed(self, key: bytes) -> None:
        """An answer needs its checkpoints no more."""
        self._notes.forget(key)
        self._wake.set()

    def durable(self, entry: Entry) -> bool:
        """Whether every record of a prefix is on the disk."""
        snapshot = Snapshot(self.model, self._seed(entry.partition), entry.tokens, _ends(entry))
        return self._directory is not None and not snapshot.lacks(self._catalog, self._layout, 2**30)

    def find(self, tokens: bytes, partition: str) -> Prefix:
        """The longest durable prefix that leaves at least one token to compute."""
        if self._directory is None:
            return Prefix(0)
        limit = len(tokens) // record.TOKEN - 1
        return self._catalog.longest(self._seed(partition), tokens, limit, self._layout)

    async def load(self, prefix: Prefix) -> Frozen | None:
        """Read a prefix; None when a record turns out to be unusable, which is then never found again."""
        if self._directory is None:
            return None
        try:
            frozen = await self._restorer.restore(self._directory, prefix)
        except BrokenPrefix as error:
            for broken in error.broken:
                self._catalog.discard(broken.record.name)
                log.warning("ssd cache: the record %s cannot be used: %s", broken.record.name, broken.reason)
                self._send(self._writer.set_aside, SetAside(broken.record.name, broken.reason))
            return None
        except Exception:
            log.exception("ssd cache: a prefix of %d tokens could not be read", prefix.length)
            return None
        self._send(self._writer.touch, Touch(prefix.names))
        return frozen

    async def flush(self, timeout_s: float) -> Flushed:
        """Try everything that is pending once more, now, and wait for it. Cancelling stops only the waiting."""
        started = time.monotonic()
        before = self._unwritten.counts()
        waiting = self._unwritten.hurry()
        self._wake.set()

        def over() -> bool:
            settled = all(pending.settled_since(started) for pending in (*waiting, *self._unwritten))
            return settled and not self._notes.ready_soon(self._unwritten.names)

        try:
            async with asyncio.timeout(timeout_s), self._settled:
                await self._settled.wait_for(over)
        except TimeoutError:
            log.warning("ssd cache: a flush did not end within %.0f s", timeout_s)
        return self._flushed(before, waiting, started)

    def statistics(self) -> SpillingStatistics:
        counts, restorer = self._unwritten.counts(), self._restorer
        return SpillingStatistics(
            attached=self._directory is not None,
            pending_snapshots=len(self._unwritten),
            pending_spill_bytes=self._pending_bytes(),
            spills=counts.written,
            dropped_spills=counts.dropped,
            failed_spills=counts.failed,
            missing_snapshots=len(self._missing()),
            restores=restorer.restores,
            restored_tokens=restorer.tokens,
            restore_ms_last=restorer.last_ms,
        )

    # The worker.

    async def _work(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while (pending := self._unwritten.next(time.monotonic())) is not None:
                try:
                    await self._spill(pending)
                except asyncio.CancelledError:
                    raise
                except Exception as error:
                    # Most likely the writer has died: it comes back empty-handed, and may know less than before.
                    log.warning("ssd cache: the writer failed, trying again in %.0f s: %s", RETRY_S, error)
                    self._known = None
                    self._later(pending)
                await self._tell()
            await self._keep_notes()
            await self._tell()

    async def _keep_notes(self) -> None:
        """Write what answers have come to, and remove what is superseded. A failure costs a checkpoint, no more."""
        if self._directory is None or self._known is None:
            return
        try:
            if drafts := self._notes.ready(self._unwritten.names):
                written: Written = await self._ask(self._writer.write, Write(tuple(drafts)))
                for one in written.durable:
                    self._catalog.add(one)
            if stale := self._notes.stale(self._catalog):
                await self._ask(self._writer.remove, Remove(tuple(stale)))
                for name in stale:
                    self._catalog.discard(name)
        except Exception as error:
            log.warning("ssd cache: a checkpoint was not kept: %s", error)

    async def _tell(self) -> None:
        async with self._settled:
            self._settled.notify_all()

    async def _spill(self, pending: Pending) -> None:
        """Write what one prefix lacks."""
        if self._known is None or self._directory is None:
            await self._attach()
            if self._directory is None or pending not in self._unwritten:
                return
        last: str | None = None
        while slots := pending.snapshot.lacks(self._catalog, self._layout, self._settings.block_tokens):
            batch = _batch(slots, pending.entry)
            if batch[0].name == last:
                raise RuntimeError("the writer has a record and does not give what it should")
            last = batch[0].name
            parcels = await self._export(pending.entry, batch)
            if pending not in self._unwritten:
                return  # given up meanwhile
            if parcels is None:
                self._unwritten.lose(pending)
                return
            drafts = [slot.filled(one.tensors, one.extra) for slot, one in zip(batch, parcels, strict=True)]
            written: Written = await self._ask(self._writer.write, Write(tuple(drafts)))
            if written.writer != self._known:
                await self._attach()
                last = None
            elif not self._learn(pending, written):
                return
        if self._unwritten.done(pending):
            self._ports.drop(pending.entry.entry)

    def _learn(self, pending: Pending, written: Written) -> bool:
        """Take in the writer's answer. True when there is more to write."""
        for name in written.removed:
            self._catalog.discard(name)
        for one in written.durable:
            self._catalog.add(one)
        if written.no_room:
            if self._unwritten.lose(pending):
                self._ports.drop(pending.entry.entry)
        elif written.busy or written.failure:
            self._later(pending, failed=written.failure is not None)
        return bool(written.durable)

    async def _attach(self) -> None:
        attached: Attached = await self._ask(self._writer.attach, Attach(self.model))
        self._known = attached.writer
        if attached.unavailable is not None:
            self._directory = None
            for pending in self._unwritten.clear():
                self._ports.drop(pending.entry.entry)
            asyncio.get_running_loop().call_later(RETRY_S, lambda: self._spawn(self._attach_again()))
            return
        self._directory, self._catalog = Path(attached.directory), Catalog(attached.records)
        for entry in self._ports.held():
            self.offer(entry)

    async def _attach_again(self) -> None:
        try:
            await self._attach()
        except Exception as error:
            log.warning("ssd cache: the writer does not answer: %s", error)
            asyncio.get_running_loop().call_later(RETRY_S, lambda: self._spawn(self._attach_again()))

    async def _export(self, entry: Entry, batch: list[Slot]) -> list[Parcel] | None:
        cuts = tuple((slot.start, slot.stop) for slot in batch if slot.kind == "segment")
        order = Order(entry.entry, cuts, tuple(slot.stop for slot in batch if slot.kind == "state"))
        self._ports.order(order)
        return await asyncio.wrap_future(order.done)

    def _later(self, pending: Pending, failed: bool = True) -> None:
        self._unwritten.postpone(pending, time.monotonic(), RETRY_S, failed)
        asyncio.get_running_loop().call_later(RETRY_S, self._wake.set)

    async def _ask(self, method: Any, message: Any) -> Any:
        async with asyncio.timeout(PATIENCE_S):
            return await method.remote(message)

    def _send(self, method: Any, message: Any) -> None:
        async def send() -> None:
            try:
                await self._ask(method, message)
            except Exception as error:
                log.warning("ssd cache: the writer did not hear of a record: %s", error)

        self._spawn(send())

    def _spawn(self, coroutine: Any) -> None:
        task = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Figures.

    def _seed(self, partition: str) -> bytes:
        return record.seed(self.model, partition)

    def _pending_bytes(self) -> int:
        total = 0.0
        for pending in self._unwritten:
            missing = pending.snapshot.missing_tokens(self._catalog, self._layout)
            total += pending.entry.size * missing / max(1, len(pending.entry.tokens) // record.TOKEN)
        return int(total)

    def _missing(self) -> list[Snapshot]:
        return self._unwritten.missing(lambda one: not one.lacks(self._catalog, self._layout, 2**30))

    def _flushed(self, before: Any, waiting: list[Pending], started: float) -> Flushed:
        counts = self._unwritten.counts()
        return Flushed(
            flushed_snapshots=sum(pending.written for pending in waiting),
            missing_snapshots=len(self._missing()),
            pending_snapshots=len(self._unwritten),
            pending_spill_bytes=self._pending_bytes(),
            dropped_spills=counts.dropped - before.dropped,
            failed_spills=counts.failed - before.failed,
            elapsed_ms=int((time.monotonic() - started) * 1000),
            attached=self._directory is not None,
        )


def record_model(fingerprint: str, loaded: Loaded) -> str:
    """Whose records a model may use: equal weights, in the same type, computed by the same libraries."""
    versions = (metadata.version("mlx"), metadata.version("mlx-lm"))
    parts = (fingerprint, loaded.dtype, loaded.device, loaded.cache_kinds, *versions)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _ends(entry: Entry) -> tuple[int, ...]:
    return (*entry.boundaries, len(entry.tokens) // record.TOKEN)


def _batch(slots: list[Slot], entry: Entry) -> list[Slot]:
    """The first of the slots, for about `BATCH_BYTES`."""
    per_token = entry.size / max(1, len(entry.tokens) // record.TOKEN)
    batch: list[Slot] = []
    size = 0.0
    for slot in slots:
        # What a state weighs is not known here; one a message keeps the slices short.
        size += (slot.stop - slot.start) * per_token if slot.kind == "segment" else BATCH_BYTES
        if batch and size > BATCH_BYTES:
            break
        batch.append(slot)
    return batch
