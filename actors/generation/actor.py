"""The generation scheduler: the engine thread's public face.

The event loop takes messages, asks the prompt-cache manager, keeps the waiting line and answers; the engine thread
(engine.py) does everything that touches an array. They meet in `Inbox` (loop to engine) and `EnginePort` (back).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from actors import ids
from actors.errors import QueueFull, ShuttingDown
from actors.generation import marks
from actors.generation.burst import Burst
from actors.generation.checkpoints import equip, key_of
from actors.generation.engine import Engine
from actors.generation.events import Outgoing
from actors.generation.export import Order
from actors.generation.fetching import Fetching
from actors.generation.grammar.bounded import following
from actors.generation.grammar.compiler import Compiled, Refused
from actors.generation.grammar.constraint import Constraint
from actors.generation.grammars import Grammars
from actors.generation.housekeeping import Housekeeping
from actors.generation.loading import Loaded, load
from actors.generation.mailbox import Mailbox
from actors.generation.memory import measure
from actors.generation.messages import (
    Accepted,
    Cancel,
    Description,
    Failure,
    Flushed,
    SchedulerStatistics,
    StepEvents,
    Submit,
    choice_id,
)
from actors.generation.packing import pack, unpack
from actors.generation.policy import PrefillRate
from actors.generation.prefixes import Prefixes
from actors.generation.row import Choices, Row
from actors.generation.shelf import Stored
from actors.generation.spilling import Ports, Spilling, record_model
from actors.generation.waiting import WaitingLine
from actors.gpu_lease import booking
from actors.gpu_lease.holder import LeaseHolder
from actors.ids import EntryId, IngressId
from actors.models.card import ModelCard
from actors.prompt_cache.messages import Entry
from actors.settings import Settings

log = logging.getLogger("troupe.generation")

AHEAD = 2
"""Rows handed to the engine beyond those it can run, so that a seat never stays empty for a lookup."""


class GenerationScheduler:
    """One model on one machine. All methods are called on one event loop.

    Args:
        settings: the whole configuration.
        card: what is served.
        manager: handle of the prompt-cache manager.
        lease: returns the handle of this machine's GPU lease.
        mailbox_host: address the mailbox listens on.
        writer: handle of the SSD writer; None without an SSD tier.
    """

    def __init__(
        self,
        settings: Settings,
        card: ModelCard,
        manager: Any,
        lease: Callable[[], Any],
        mailbox_host: str,
        writer: Any = None,
    ) -> None:
        self.incarnation = ids.incarnation()
        self._settings = settings
        self._card = card
        self._mailbox_host = mailbox_host
        self._lease_factory = lease
        self._mailbox = Mailbox(self._cancel, self._ingress_gone)
        cache = settings.prompt_cache
        self._prefixes = Prefixes(manager, self.incarnation, card.fingerprint, cache.max_bytes > 0, self._drop)
        generation = settings.generation
        self._line = WaitingLine(generation.max_rows + AHEAD, max(0, generation.queue - AHEAD))
        self._burst = Burst()
        self._writer = writer
        self._spilling: Spilling | None = None
        self._fetching: Fetching | None = None
        self._draining = False
        # Rows that left the line before the engine had heard of them.
        self._gave_up = 0
        self._empty = asyncio.Event()
        self._seating = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Load the model and open the mailbox. Raises `StartError`."""
        self._loop = asyncio.get_running_loop()
        self._lease = LeaseHolder(self._lease_factory, f"generation:{self.incarnation}", "interactive", self._loop)
        generation, cache = self._settings.generation, self._settings.prompt_cache
        self._engine = Engine(
            load=lambda: load(self._card.path, generation.dtype, generation.trust_model_code),
            lease=self._lease,
            outgoing=Outgoing(self._mailbox.post),
            port=self,
            end_tokens=self._card.eos_token_ids,
            max_rows=generation.max_rows,
            rate=PrefillRate(generation.prefill_stall_s, generation.prefill_step_tokens),
            store=cache.min_tokens if cache.max_bytes > 0 else None,
            boundary=cache.boundary_tokens,
        )
        await booking.load(self._lease, self._card.model_id, self._card.weight_bytes, self._load)
        self._grammars = Grammars(self._card, self._loaded.vocabulary, generation.grammar)
        await self._grammars.start()
        await self._start_spilling()
        await self._mailbox.open(self._mailbox_host)
        self._spawn(self._seat_rows())
        durable = self._spilling.durable if self._spilling else None
        self._spawn(Housekeeping(self._prefixes, cache, durable, measure).run())
        await self._prefixes.reconcile()
        log.info(
            "%s is loaded: %.0f MB of %s on the %s",
            self._card.model_id,
            self._loaded.weight_bytes / 1e6,
            self._loaded.dtype,
            self._loaded.device,
        )

    async def _load(self) -> int:
        self._loaded: Loaded = await asyncio.wrap_future(self._engine.start())
        return self._loaded.weight_bytes

    async def _start_spilling(self) -> None:
        if self._writer is None or self._settings.prompt_cache.max_bytes == 0:
            return
        engine, prefixes = self._engine, self._prefixes

        def order(order: Order) -> None:
            engine.inbox.put_errand(lambda: engine.exports.take(order))

        ports = Ports(order, engine.inbox.put_drop, lambda: prefixes.held)
        model = record_model(self._card.fingerprint, self._loaded)
        self._spilling = Spilling(self._writer, model, self._loaded.layout, self._settings.ssd_cache, ports)
        self._fetching = Fetching(self._spilling, engine, self._settings.prompt_cache.min_tokens)
        await self._spilling.start()

    def check_health(self) -> None:
        """Raises when the engine thread has died, so that the deployment is restarted."""
        if not self._engine.alive:
            raise RuntimeError("the engine thread has ended")

    async def describe(self) -> Description:
        generation = self._settings.generation
        limit = generation.context_tokens
        return Description(
            incarnation=self.incarnation,
            model_id=self._card.model_id,
            model_path=str(self._card.path),
            mailbox_host=self._mailbox.host,
            mailbox_port=self._mailbox.port,
            mailbox_secret=self._mailbox.secret,
            vocabulary=self._loaded.vocabulary,
            context_limit=self._card.context_window if limit == "model" else limit,
            max_rows=generation.max_rows if self._loaded.batchable else 1,
            batchable=self._loaded.batchable,
            trimmable=self._loaded.trimmable,
            weight_bytes=self._loaded.weight_bytes,
            dtype=self._loaded.dtype,
            device=self._loaded.device,
        )

    async def submit(self, request: Submit) -> Accepted | Failure:
        """Put a row in line. Does not wait for a seat. A request id that is live already is refused."""
        started = time.monotonic()
        if self._draining:
            return Failure(ShuttingDown.__name__, "the server is shutting down")
        if not self._mailbox.knows(request.ingress):
            return Failure("EngineUnavailable", "the ingress has no mailbox here")
        tokens = unpack(request.prompt)
        problem = self._problem(request, tokens)
        if problem:
            return Failure("InvalidRequest", problem)
        grammar: Compiled | None = None
        if request.constraint is not None:
            verdict = await self._grammars.compile(request.constraint)
            if isinstance(verdict, Refused):
                return Failure("InvalidRequest", f"grammar not enforced: {verdict.reason}")
            grammar = verdict
        key, saved = await self._checkpoint_of(request)
        # Asked last: everything above may have taken a while.
        if self._line.full:
            return Failure(QueueFull.__name__, f"the generation queue is full ({self._settings.generation.queue} wait)")
        waiting = self._line.waiting
        rows = rows_of(request, tokens)
        for row in rows:
            row.matcher = None if grammar is None else following(grammar)
            row.marks = [] if request.traced else None
            if key is not None:
                equip(row, key, self._settings.ssd_cache.checkpoint_tokens, saved)
            marks.note(row, "completion.placement", started, rows=len(rows))
            self._line.join(row)
        self._burst.submitted(request.ingress, request.coming)
        self._empty.clear()
        self._seating.set()
        return Accepted(request.request_id, waiting)

    async def _checkpoint_of(self, request: Submit) -> tuple[bytes | None, list[int]]:
        """The key under which the answer is kept while it is made, and what is there already."""
        if self._spilling is None or not self._settings.ssd_cache.checkpoint_tokens:
            return None, []
        key = key_of(self._spilling.model, request)
        return key, [] if key is None else await self._spilling.saved(key)

    async def compile(self, constraint: Constraint) -> str | None:
        """Why a constraint cannot be enforced; None when it can. Cancelling abandons only the question."""
        verdict = await self._grammars.compile(constraint)
        return verdict.reason if isinstance(verdict, Refused) else None

    def _problem(self, request: Submit, tokens: list[int]) -> str | None:
        if not tokens:
            return "the prompt is empty"
        if max(tokens) >= self._loaded.vocabulary:
            return f"token id {max(tokens)} is not in the vocabulary of {self._loaded.vocabulary}"
        if request.max_tokens is not None and request.max_tokens < 1:
            return "max_tokens should be at least 1"
        if request.request_id in self._line:
            return f"request {request.request_id} is running already"
        return None

    async def statistics(self) -> SchedulerStatistics:
        engine, tally = self._engine, self._engine.tally
        ready = engine.ready
        now = self._loop.time()
        return SchedulerStatistics(
            active_rows=engine.active,
            prefilling_rows=engine.prefilling,
            waiting_rows=self._line.waiting + len(ready),
            oldest_wait_s=max([self._line.oldest_wait_s(), *(now - row.accepted_at for row in ready)]),
            submitted_rows=tally.finished + tally.cancelled + self._gave_up + tally.failed + self._line.live,
            finished_rows=tally.finished,
            cancelled_rows=tally.cancelled + self._gave_up,
            failed_rows=tally.failed,
            prompt_tokens=tally.prompt_tokens,
            cached_tokens=tally.cached_tokens,
            generated_tokens=tally.generated_tokens,
            tokens_per_s=tally.tokens_per_s(),
            prefill_tokens_per_s=engine.rate.tokens_per_s,
            steps=tally.steps,
            kv_bytes=engine.kv_bytes,
            stored_bytes=engine.shelf.size,
            lease_wait_s=self._lease.wait_s,
            lease_hold_s=self._lease.hold_s,
            mailbox_depth=len(engine.inbox),
            mailbox_backlog_bytes=self._mailbox.backlog_bytes,
            ingress_replicas=self._mailbox.replicas,
            spilling=self._spilling.statistics() if self._spilling else None,
        )

    async def drain(self) -> None:
        """Refuse new rows and return when the last one has ended. Cancelling stops only the waiting."""
        self._draining = True
        self._mailbox.post_all(StepEvents(0, (), draining=True))
        if self._line.live:
            self._empty.clear()
            await self._empty.wait()

    async def flush(self, timeout_s: float) -> Flushed:
        """Make every stored prefix durable. Returns when that is done, has failed once, or the time is over."""
        return await self._spilling.flush(timeout_s) if self._spilling else Flushed(attached=False)

    async def close(self) -> None:
        """End the engine thread and give the lease back. Rows that still run get nothing more."""
        self._draining = True
        for task in self._tasks:
            task.cancel()
        await self._grammars.close()
        if self._spilling is not None:
            self._spilling.close()
        self._engine.stop()
        self._lease.close()
        self._mailbox.close()
        await asyncio.to_thread(self._engine.join)
        await self._lease.closed()

    # What the engine says; called from its thread.

    def ended(self, row: Row) -> None:
        self._loop.call_soon_threadsafe(self._row_ended, row)

    def stored(self, entry: EntryId, row: Row, stored: Stored) -> None:
        known = Entry(
            entry,
            pack(row.tokens[: stored.length]),
            stored.size,
            stored.trimmable,
            row.request.session,
            stored.boundaries,
            row.request.partition,
        )
        self._loop.call_soon_threadsafe(self._publish, known)

    def checkpointed(self, entry: EntryId, row: Row, generated: tuple[int, ...]) -> None:
        if self._spilling is not None and row.checkpoint is not None:
            self._loop.call_soon_threadsafe(self._spilling.note, row.checkpoint.key, entry, generated)

    # The event loop's part.

    def _row_ended(self, row: Row) -> None:
        if row.done and row.checkpoint is not None and self._spilling is not None:
            self._spilling.completed(row.checkpoint.key)
        self._line.leave(row.request.request_id)
        self._seating.set()
        if not self._line.live:
            self._empty.set()

    def _publish(self, entry: Entry) -> None:
        self._prefixes.publish(entry)
        if self._spilling is not None:
            self._spilling.offer(entry)

    def _drop(self, entry: EntryId) -> None:
        if self._spilling is None or self._spilling.release(entry):
            self._engine.inbox.put_drop(entry)

    async def _seat_rows(self) -> None:
        """Hand rows to the engine as seats come free, each with the longest prefix known at that moment."""
        while True:
            await self._seating.wait()
            if not self._line.seated:
                # A pass for the first one alone would make all the others wait for it.
                await self._burst.gathered(self._engine.rate.short_pass_s)
            self._seating.clear()
            # Looked up side by side: rows that come together should reach the engine together, and share a pass.
            seated = []
            while (row := self._line.next()) is not None:
                seated.append(row)
            await asyncio.gather(*(self._look_up(row) for row in seated))
            ready = []
            for row in seated:
                if self._fetching is not None and self._fetching.worthwhile(row):
                    # Nobody else waits for the disk.
                    self._spawn(self._fetching.fetch(row))
                else:
                    ready.append(row)
            self._engine.inbox.put_rows(ready)

    async def _look_up(self, row: Row) -> None:
        row.lookup_at = time.monotonic()
        match = await self._prefixes.lookup(row.request, row.tokens)
        if match is not None:
            row.entry, row.entry_length, row.branch = match.entry, match.length, match.shared

    def _cancel(self, message: Cancel) -> None:
        known = message.request_id in self._line
        if self._line.cancel(message.request_id):
            self._engine.inbox.wake()
        elif known:
            self._gave_up += 1
        if not self._line.live:
            self._empty.set()

    def _ingress_gone(self, ingress: IngressId) -> None:
        for request_id in self._line.of(ingress):
            self._cancel(Cancel(request_id, "ingress gone"))

    def _spawn(self, coroutine: Any) -> None:
        task = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def rows_of(request: Submit, tokens: list[int]) -> list[Row]:
    """One row a choice; several share the computation of the prompt."""
    if request.choices == 1:
        return [Row(request, tokens)]
    rows = [Row(_choice(request, index), list(tokens)) for index in range(request.choices)]
    shared = Choices(unstarted=len(rows))
    for row in rows:
        row.choices = shared
    return rows


def _choice(request: Submit, index: int) -> Submit:
    seed = (request.sampling.seed + index) % 2**64
    return replace(
        request, request_id=choice_id(request.request_id, index), sampling=replace(request.sampling, seed=seed)
    )
