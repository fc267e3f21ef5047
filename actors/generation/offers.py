"""What the engine offers to the prompt cache: exact copies of rows' caches, put on the shelf and made known."""

from __future__ import annotations

import logging
from collections.abc import Callable

from actors.generation import kv
from actors.generation.ports import StoredPort
from actors.generation.row import Row
from actors.generation.shelf import Shelf
from actors.ids import entry_id

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

    def __init__(self, shelf: Shelf, port: StoredPort, least: int | None, cuttable: bool) -> None:
        self._shelf = shelf
        self._port = port
        self._least = least
        self._cuttable = cuttable

    def prompt_done(self, row: Row, copy: Callable[[], kv.RowCaches]) -> None:
        """Store a finished prompt: always where prefixes cannot be cut later, else when it was long to compute."""
        if row.generated == 0 and (not self._cuttable or row.computed - row.cached >= SNAPSHOT_TOKENS):
            self.store(row, copy)

    def store(self, row: Row, copy: Callable[[], kv.RowCaches]) -> None:
        """Store what the row has computed, unless it is too short or all of it came from the shelf. Never raises.

        Args:
            copy: makes exact copies of the row's caches, which hold `row.computed` tokens.
        """
        length = row.computed
        if self._least is None or length < self._least or length <= row.cached:
            return
        try:
            caches = copy()
            entry = entry_id()
            stored = self._shelf.put(entry, caches, length)
            self._port.stored(entry, row, length, stored.size, kv.trimmable(caches))
        except Exception:
            # The row has its tokens; only those who come after it start colder.
            log.exception("the prefix of %s could not be stored", row.request.request_id)
