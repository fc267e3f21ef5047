"""The rows that do not decode yet: those in line, and those whose prompts are being computed."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from actors.generation import boundaries, fork, kv, marks
from actors.generation.row import Row
from actors.generation.shelf import Shelf
from actors.generation.tally import Tally
from actors.ids import EntryId

log = logging.getLogger("troupe.generation.desk")


class Desk:
    """Engine thread only.

    Args:
        model: an mlx-lm model.
        shelf: stored prefixes to start from.
        tally: counts what they save.
        cuttable: whether stored prefixes of this model can be cut at any token.
        every: distance of boundaries within a prompt, where they cannot; 0 for none.
    """

    def __init__(self, model: Any, shelf: Shelf, tally: Tally, cuttable: bool, every: int) -> None:
        self._model = model
        self._shelf = shelf
        self._tally = tally
        self._cuttable = cuttable
        self._every = every
        self.waiting: deque[Row] = deque()
        """In line for a seat; each has its caches."""
        self.prefilling: list[Row] = []
        """Seated, oldest first; their prompts are not computed yet, or just now."""

    @property
    def empty(self) -> bool:
        return not (self.waiting or self.prefilling)

    def arrive(self, row: Row) -> None:
        """A row comes in. It starts now, while its stored prefix is certainly there, or waits for its leader."""
        if not fork.park(row):
            self._start(row)
            self.waiting.append(row)

    def admit(self, seats: int) -> None:
        """Give free seats to the first in line."""
        for _ in range(min(seats, len(self.waiting))):
            row = self.waiting.popleft()
            row.admitted_at = time.monotonic()
            marks.note(row, "engine.admission_wait", row.accepted_at)
            self.prefilling.append(row)

    def seated(self, row: Row, copy: Callable[[], kv.RowCaches]) -> None:
        """The row's prompt is done and it decodes from now on. Rows that waited for it begin."""
        self.prefilling.remove(row)
        row.seated_at = time.monotonic()
        self._begin(fork.prompt_done(row, copy))

    def gone(self, row: Row) -> None:
        """The row has ended, wherever it was. Rows that waited for it begin without it."""
        if row in self.prefilling:
            self.prefilling.remove(row)
        self._begin(fork.gone(row))

    def back(self, row: Row) -> None:
        """The row's state is lost; it computes everything anew."""
        row.caches = kv.new(self._model)
        row.computed = 0
        row.draws = row.generated
        # It is tried alone, and may be the one that fails: nothing of it is worth a stop.
        row.stops, row.states = [], {}
        if row not in self.prefilling:
            self.prefilling.append(row)

    def take_cancelled(self) -> list[Row]:
        """Rows whose clients have left. Those in line have left it; the others are still to be told `gone`."""
        parked = [row for row in fork.parked([*self.waiting, *self.prefilling]) if row.cancelled]
        waiting = [row for row in self.waiting if row.cancelled]
        for row in waiting:
            self.waiting.remove(row)
        return parked + waiting + [row for row in self.prefilling if row.cancelled]

    def clear(self) -> list[Row]:
        """Forget everybody. Returns them, those first who wait for others."""
        rows = [*self.prefilling, *self.waiting]
        self.prefilling.clear()
        self.waiting.clear()
        return [*fork.parked(rows), *rows]

    def _begin(self, rows: list[Row]) -> None:
        """Rows that had waited for another one's prompt; they have waited longer than all in line."""
        for row in rows:
            self._start(row)
        self.waiting.extendleft(reversed(rows))

    def _start(self, row: Row) -> None:
        """Give a row its caches, unless it has some: a stored prefix, or empty ones."""
        if row.caches is not None:
            return
        if row.entry is not None:
            try:
                row.caches = self._shelf.take(row.entry, row.entry_length)
            except Exception:
                log.exception("%s cannot use its stored prefix and starts cold", row.request.request_id)
            if row.caches is not None:
                row.computed = row.cached = row.entry_length
                self._inherit(row, row.entry)
        if row.caches is None:
            row.caches = kv.new(self._model)
        if not self._cuttable:
            wanted = row.request.boundaries
            row.stops = boundaries.stops(row.computed, len(row.tokens) - 1, wanted, row.branch, self._every)
        if row.lookup_at:
            marks.note(row, "cache.lookup_restore", row.lookup_at, cached_tokens=row.cached)
        row.entry = None
        self._tally.cached_tokens += row.cached

    def _inherit(self, row: Row, entry: EntryId) -> None:
        """What the entry can be cut at, the row can be too, up to where it starts."""
        if not self._cuttable:
            row.states = self._shelf.states(entry, row.computed)
            row.states[row.computed] = kv.states(row.caches or [])
