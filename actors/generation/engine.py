"""The engine: one thread that owns the model, its caches and the step loop.

    while running: take the news, hold the lease, one step

A step starts a decode pass for the running rows and reads the one before, then computes one chunk of the prompts
that wait. Nothing here does network or file I/O; what the world should know goes out through `EnginePort`.
MLX streams belong to threads, so everything that touches an array happens in this thread, loading included.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import mlx.core as mx

from actors import cpu_kernels
from actors.errors import ShuttingDown, in_words
from actors.generation import kv, marks
from actors.generation.batch import DecodeBatch, Read
from actors.generation.desk import Desk
from actors.generation.events import Outgoing
from actors.generation.export import Exports
from actors.generation.inbox import Inbox
from actors.generation.loading import Loaded
from actors.generation.messages import Failure
from actors.generation.offers import Offers
from actors.generation.policy import PrefillJob, PrefillRate, crowd, plan
from actors.generation.ports import EnginePort
from actors.generation.prefill import CLEAR_AFTER_TOKENS, Prefill
from actors.generation.row import Row
from actors.generation.shelf import Shelf
from actors.generation.tally import Tally
from actors.generation.tensors import Frozen, thaw
from actors.gpu_lease.ports import Lease
from actors.ids import EntryId

log = logging.getLogger("troupe.generation.engine")

ACCOUNT_S = 1.0
"""How often the bytes of the running caches are counted."""

BREATHER_S = 0.05
"""Pause after a failure of the loop itself, so that a lasting one cannot spin."""


class Engine:
    """See the module. `start` returns a future of what was loaded; `stop` ends the thread.

    Args:
        load: builds the model; runs in the engine thread.
        lease: permission to run MLX.
        outgoing: collects a step's events and posts them.
        port: the event loop's ear.
        end_tokens: ids that end a row.
        max_rows: rows that decode together, if the model's caches can be batched.
        rate: budget of prompt tokens a step.
        store: whether to offer prefixes to the prompt cache, and from how many tokens.
        boundary: distance of boundaries within a prompt, for models whose caches cannot be cut anywhere; 0 for none.
    """

    def __init__(
        self,
        load: Callable[[], Loaded],
        lease: Lease,
        outgoing: Outgoing,
        port: EnginePort,
        end_tokens: frozenset[int],
        max_rows: int,
        rate: PrefillRate,
        store: int | None,
        boundary: int = 0,
    ) -> None:
        self.inbox = Inbox()
        self.shelf = Shelf()
        self.exports = Exports(self.shelf)
        self.tally = Tally()
        self.rate = rate
        self._load = load
        self._lease = lease
        self._out = outgoing
        self._port = port
        self._end_tokens = end_tokens
        self._max_rows = max_rows
        self._store = store
        self._boundary = boundary
        self._running = True
        self._accounted = 0.0
        self.kv_bytes = 0
        self._loaded: Future[Loaded] = Future()
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    def start(self) -> Future[Loaded]:
        self._thread.start()
        return self._loaded

    def stop(self) -> None:
        """End the thread at its next step boundary; rows that run get nothing more. May be repeated."""
        self._running = False
        self.inbox.wake()

    def join(self) -> None:
        """Block until the thread has ended. An interpreter that exits under a running MLX thread aborts."""
        self._thread.join()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._lease.hold()
            cpu_kernels.activate()
            loaded = self._load()
        except BaseException as error:
            self._loaded.set_exception(error)
            return
        finally:
            self._lease.idle()
        self._model = loaded.model
        self._joinable = loaded.batchable
        self._at_once = loaded.trimmable and loaded.last_only
        self._batch = DecodeBatch(loaded.model)
        self._prefill = Prefill(loaded.model)
        stopless = loaded.trimmable or self._store is None
        self._desk = Desk(loaded.model, self.shelf, self.tally, stopless, self._boundary)
        self._offers = Offers(self.shelf, self._port, self._store, loaded.trimmable)
        self._loaded.set_result(loaded)
        while self._running:
            try:
                self._turn()
            except ShuttingDown:
                break
            except Exception:
                log.exception("the step loop failed outside any row")
                self._fail_all()
                time.sleep(BREATHER_S)
        self._lease.idle()
        self.exports.clear()

    def _turn(self) -> None:
        rows, drops = self.inbox.take()
        for errand in self.inbox.errands():
            errand()
        for row in rows:
            self._desk.arrive(row)
            if row.replay:
                self._out.replayed(row)
        for entry in drops:
            self.shelf.drop(entry)
        if self._desk.empty and not self._batch.rows:
            if self.exports.pending:
                return self.exports.alone(self._lease)
            mx.synchronize()
            mx.synchronize(self._batch.beside)
            self._lease.idle()
            self.kv_bytes = 0
            self.inbox.wait()
            return
        self._lease.hold()
        self._drop_cancelled()
        self._step()
        self.exports.step(calm=not self._batch.rows)
        if self._lease.must_yield:
            self._flush()
            self._out.post()
            self._lease.give_way()

    def shelve(self, entry: EntryId, row: Row, frozen: Frozen) -> None:
        """Put a prefix of the row that was read from the disk on the shelf. Never raises; the row starts cold then."""
        self._offers.restored(entry, row, frozen.length, lambda: thaw(self._model, frozen))

    def _step(self) -> None:
        decoding = len(self._batch)
        self._desk.admit((self._max_rows if self._joinable else 1) - decoding - len(self._desk.prefilling))
        by_name: dict[str, Row] = {row.request.request_id: row for row in self._desk.prefilling}
        jobs = [PrefillJob(name, row.remaining, row.stop) for name, row in by_name.items()]
        todo = plan(decoding, self._max_rows, jobs, self.rate.budget(decoding, crowd(jobs)), self._joinable)
        self._join([by_name[key] for key in todo.join])
        self._decode(flush=todo.chunk is not None)
        # Posted before the chunk: nobody's token waits for somebody else's prompt.
        self._out.post()
        if todo.chunk is not None:
            self._compute([(by_name[key], tokens) for key, tokens in todo.chunk])
        self._out.post()
        self._account()

    def _account(self) -> None:
        now = time.monotonic()
        self.tally.step()
        if now - self._accounted > ACCOUNT_S:
            self._accounted = now
            prefilling = sum(kv.size(row.caches) for row in self._desk.prefilling if row.caches)
            self.kv_bytes = self._batch.size + prefilling

    # Who runs.

    def _join(self, rows: list[Row]) -> None:
        for row in rows:
            if not row.suspect or self._begin([row]):  # a suspect is tried first
                self._seat([row], row.caches or [], merged=False)

    def _seat(self, rows: list[Row], caches: list[Any], merged: bool) -> None:
        """Move rows whose prompts are done into the batch."""
        for index, row in enumerate(rows):
            marks.note(row, "prefill.total", row.admitted_at, tokens=row.computed - row.cached)

            def mine(index: int = index) -> kv.RowCaches:
                return kv.row_of(caches, index, merged)

            with marks.span([row], "prefill.kv_maintenance"):
                self._offers.prompt_done(row, mine)
            self._desk.seated(row, lambda mine=mine: kv.exact(mine()))
        try:
            self._batch.add(rows, caches, merged)
        except Exception as error:
            self._suspect([*self._batch.clear(), *rows], error)

    def _begin(self, rows: list[Row]) -> DecodeBatch:
        """Run the next step of rows apart, the rest of their prompts included. Returns those who go on."""
        apart = DecodeBatch(self._model, self._batch.beside)
        started, tokens = time.monotonic(), [row.remaining for row in rows]
        try:
            apart.begin(rows)
            read = apart.flush()
        except Exception as error:
            apart.clear()
            self._suspect(rows, error) if len(rows) > 1 else self._fail(rows[0], error)
            return apart
        self.rate.observe(max(tokens) * len(rows), time.monotonic() - started)
        self.tally.prompt_tokens += sum(tokens)
        for row in rows:
            row.suspect = False
        self._settle(read, batch=apart)
        if apart and len(rows) == 1:
            rows[0].caches = apart.view(rows[0])
        return apart

    # What a step computes.

    def _decode(self, flush: bool) -> None:
        if not self._batch.rows:
            return
        try:
            read = self._batch.advance()
        except Exception as error:
            rows = self._batch.clear()
            ended = self._settle(self._batch.taken())
            self._suspect([row for row in rows if row not in ended], error)
            return
        self._settle(read)
        # Only now: a row that just ended has a token in flight that is nobody's. First tokens are read at once:
        # their clients wait, and building the next step first would make them later by as long as that takes.
        if flush or self._batch.begins:
            self._flush()

    def _flush(self) -> None:
        """Read the step in flight and leave nothing on the device."""
        try:
            read = self._batch.flush()
        except Exception as error:
            self._suspect(self._batch.clear(), error)
            return
        self._settle(read)

    def _compute(self, chunk: list[tuple[Row, int]]) -> None:
        rows = [row for row, _ in chunk]
        if len(rows) > 1 and any(row.suspect for row in rows):
            chunk, rows = chunk[:1], rows[:1]
        if self._at_once and all(row.opens_with(tokens) for row, tokens in chunk):
            return self._open(rows)
        try:
            passed = self._prefill.run(chunk)
        except Exception as error:
            self._suspect(rows, error) if len(rows) > 1 else self._fail(rows[0], error)
            return
        self.rate.observe(passed.padded_tokens, passed.seconds)
        self.tally.prompt_tokens += sum(tokens for _, tokens in chunk)
        for row in rows:
            self._offers.computed(row)
        # A row computed alone joins with the next step: its copies and merges are not added to this step's wait.
        if len(rows) > 1:
            self._seat(rows, passed.caches, merged=True)

    def _open(self, rows: list[Row]) -> None:
        """Compute prompts to their ends and their first tokens with them, which is a step less to wait for."""
        tokens, apart = sum(row.remaining for row in rows), self._begin(rows)
        self._out.post()
        for row in apart.rows:
            self._offers.snapshot(row, lambda row=row: apart.view(row))
        if apart and len(rows) > 1:
            self._seat(*apart.release())
        if tokens >= CLEAR_AFTER_TOKENS:
            mx.clear_cache()

    def _settle(self, read: Read, batch: DecodeBatch | None = None) -> list[Row]:
        """Hand tokens out and let go the rows that finish or are at fault. Returns those."""
        batch = batch or self._batch
        gone: list[Row] = []
        faulty: list[Row] = []
        for row, token, score in read:
            row.tokens.append(token)
            row.generated += 1
            if row.fault is not None:
                faulty.append(row)
                continue
            if row.generated == 1:
                marks.note(row, "token_zero.total", row.seated_at)
            finish = row.finish(token, self._end_tokens)
            self._out.token(row, token, finish, score)
            if finish is not None:
                self.tally.finished += 1
                row.done = True
                gone.append(row)
            elif row.checkpoint is not None:
                self._offers.checkpoint(row, lambda row=row: batch.extract(row))
        self.tally.generated(len(read))
        self._leave(gone, batch)
        self._expel(faulty, batch)
        return gone + faulty

    def _leave(self, rows: list[Row], batch: DecodeBatch) -> None:
        if not rows:
            return
        for row in rows:
            if row in batch.rows:
                self._offers.store(row, lambda row=row: batch.extract(row))
            elif row.caches is not None:
                self._offers.store(row, lambda row=row: kv.exact(row.caches or []))
                row.caches = None
        self._remove(rows, batch)
        for row in rows:
            self._desk.gone(row)
            self._port.ended(row)

    def _expel(self, rows: list[Row], batch: DecodeBatch) -> None:
        self._remove(rows, batch)
        for row in rows:
            if row.fault is not None:
                self._fail(row, row.fault)

    def _remove(self, rows: list[Row], batch: DecodeBatch) -> None:
        try:
            batch.remove(rows)
        except Exception as error:
            # What was in flight failed, and shows only now. Those who leave have all they need.
            self._suspect([row for row in batch.clear() if row not in rows], error)

    def _drop_cancelled(self) -> None:
        if any(row.cancelled for row in self._batch.rows):
            self._flush()
        rows = [*self._desk.take_cancelled(), *(row for row in self._batch.rows if row.cancelled)]
        self.tally.cancelled += len(rows)
        self._leave(rows, self._batch)

    # When something breaks.

    def _suspect(self, rows: list[Row], error: Exception) -> None:
        """A pass of several rows failed; their state is lost. Each starts over alone, and there the culprit fails."""
        log.error("a pass over %d rows failed; they start over one by one: %s", len(rows), error, exc_info=error)
        for row in rows:
            if row.suspect:
                self._fail(row, error)
                continue
            row.suspect = True
            self._desk.back(row)

    def _fail(self, row: Row, error: Exception) -> None:
        log.error("%s failed: %s", row.request.request_id, error, exc_info=error)
        self.tally.failed += 1
        self._out.failure(row, Failure("GenerationFailed", f"generation failed: {in_words(error)}"))
        row.caches = None
        self._desk.gone(row)
        self._port.ended(row)

    def _fail_all(self) -> None:
        error = RuntimeError("the engine's step loop failed")
        for row in [*self._batch.clear(), *self._desk.clear()]:
            self._fail(row, error)
        self._out.post()
        mx.clear_cache()

    # For the statistics; read from the event loop.

    @property
    def active(self) -> int:
        return len(self._batch) if self._loaded.done() else 0

    @property
    def prefilling(self) -> int:
        return len(self._desk.prefilling) if self._loaded.done() else 0

    @property
    def ready(self) -> list[Row]:
        return list(self._desk.waiting) if self._loaded.done() else []
