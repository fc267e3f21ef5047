"""What the engine offers to the prompt cache: exact copies of rows' caches, put on the shelf and made known."""

from __future__ import annotations

import logging
from collections.abc import Callable

from actors.generation import boundaries, kv
from actors.generation.ports import OffersPort
from actors.generation.row import Row
from actors.generation.shelf import Shelf
from actors.ids import EntryId, entry_id

log = logging.getLogger("troupe.generation.offers")

SNAPSHOT_TOKENS = 256
"""A prompt that cost this many computed tokens is stored before its answer is done, for requests beside it."""


class Offers:
    """Engine thread only.

    Args:
        shelf: where copies are kept.
        port: who is told.
        least: tokens that are worth storing; None stores nothing.
        cuttable: whether stored prefixes of this model can be cut at any token.
    """

    def __init__(self, shelf: Shelf, port: OffersPort, least: int | None, cuttable: bool) -> None:
        self._shelf = shelf
        self._port = port
        self._least = least
        self._cuttable = cuttable

    def computed(self, row: Row) -> None:
        """A chunk of the row's prompt was computed: keep the state if it ends where that is wanted. Never raises."""
        if row.stops and row.stops[0] <= row.computed:
            del row.stops[0]
            self._keep(row, lambda: row.caches or [])

    def prompt_done(self, row: Row, caches: Callable[[], kv.RowCaches]) -> None:
        """Keep the state at the end of a prompt, and store the prompt when it was long to compute. Never raises.

        Args:
            caches: gives the row's caches, which hold `row.computed` tokens.
        """
        if row.generated:
            return
        if not self._cuttable:
            self._keep(row, caches)
        self.snapshot(row, caches)

    def snapshot(self, row: Row, caches: Callable[[], kv.RowCaches]) -> None:
        """Store a prompt that was long to compute. As `prompt_done` otherwise."""
        if row.computed - row.cached >= SNAPSHOT_TOKENS:
            self.store(row, lambda: kv.exact(caches()))

    def checkpoint(self, row: Row, copy: Callable[[], kv.RowCaches]) -> None:
        """A token was generated: store the row's caches now and then, and say so with the next token. Never raises.

        Args:
            copy: as in `store`.
        """
        mark = row.checkpoint
        if mark is None:
            return
        if mark.entry is not None:
            self._port.checkpointed(mark.entry, row, tuple(row.tokens[-row.generated :]))
            mark.entry = None
        if row.generated % mark.every == 0:
            mark.entry = self.store(row, copy)

    def store(self, row: Row, copy: Callable[[], kv.RowCaches]) -> EntryId | None:
        """Store what the row has computed, unless it is too short or all of it came from the shelf. Never raises.

        Args:
            copy: makes exact copies of the row's caches, which hold `row.computed` tokens.

        Returns:
            The entry, if it was stored.
        """
        length = row.computed
        if self._least is None or length < self._least or length <= row.cached:
            return None
        try:
            caches = copy()
            entry = entry_id()
            kept = boundaries.thin(sorted(at for at in row.states if at < length), length, row.cached)
            states = {} if kv.trimmable(caches) else {at: row.states[at] for at in kept}
            self._port.stored(entry, row, self._shelf.put(entry, caches, length, states))
            return entry
        except Exception:
            # The row has its tokens; only those who come after it start colder.
            log.exception("the prefix of %s could not be stored", row.request.request_id)
            return None

    def restored(self, entry: EntryId, row: Row, length: int, caches: Callable[[], kv.RowCaches]) -> None:
        """Shelve a prefix of the row that was read from the disk. Never raises; the row starts cold without it."""
        try:
            self._port.stored(entry, row, self._shelf.put(entry, caches(), length))
        except Exception:
            log.exception("%s cannot use what was read from the disk", row.request.request_id)

    def _keep(self, row: Row, caches: Callable[[], kv.RowCaches]) -> None:
        if self._least is None:
            return
        try:
            row.states[row.computed] = kv.states(caches())
        except Exception:
            log.exception("the state of %s after %d tokens could not be kept", row.request.request_id, row.computed)
