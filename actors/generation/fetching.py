"""Rows that start from the disk: their prefix is read while others decode, and shelved just before they begin."""

from __future__ import annotations

from actors.generation.engine import Engine
from actors.generation.row import Row
from actors.generation.spilling import Spilling
from actors.generation.tensors import Frozen
from actors.ids import EntryId, entry_id
from actors.spill.catalog import Prefix


class Fetching:
    """Event loop only.

    Args:
        spilling: knows what is on the disk.
        engine: gets the rows.
        least: tokens that the disk must have beyond the RAM, for reading to be worth it.
    """

    def __init__(self, spilling: Spilling, engine: Engine, least: int) -> None:
        self._spilling = spilling
        self._engine = engine
        self._least = least

    def worthwhile(self, row: Row) -> bool:
        """Whether the disk has more of the row's prompt than the prefix that the row would start from."""
        return self._longer(row) is not None

    async def fetch(self, row: Row) -> None:
        """Read the row's prefix, then hand the row to the engine: with it, or without if it turns out to be damaged.

        A cancelled one is handed over too.
        """
        try:
            # A record that cannot be used is not found again: what is left may still be worth it.
            while (prefix := self._longer(row)) is not None:
                if (frozen := await self._spilling.load(prefix)) is not None:
                    self._begin_with(row, entry_id(), frozen)
                    break
        finally:
            self._engine.inbox.put_row(row)

    def _begin_with(self, row: Row, entry: EntryId, frozen: Frozen) -> None:
        self._engine.inbox.put_errand(lambda: self._engine.shelve(entry, row, frozen))
        row.entry, row.entry_length = entry, frozen.length

    def _longer(self, row: Row) -> Prefix | None:
        prefix = self._spilling.find(row.request.prompt, row.request.partition)
        return prefix if prefix.length >= row.entry_length + self._least else None
