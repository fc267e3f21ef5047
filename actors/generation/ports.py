"""What the engine needs from the world around its thread."""

from __future__ import annotations

from typing import Protocol

from actors.generation.row import Row
from actors.generation.shelf import Stored
from actors.ids import EntryId


class StoredPort(Protocol):
    """Who hears of a stored prefix. Called from the engine thread; must not block."""

    def stored(self, entry: EntryId, row: Row, stored: Stored) -> None:
        """The first `stored.length` of `row.tokens` are on the shelf."""
        ...


class OffersPort(StoredPort, Protocol):
    """What the shelf's side tells the event loop."""

    def checkpointed(self, entry: EntryId, row: Row, generated: tuple[int, ...]) -> None:
        """The row has come so far, and the entry holds the state of all but the last of its tokens or fewer."""
        ...


class EnginePort(OffersPort, Protocol):
    """What the engine tells the event loop. Called from the engine thread; must not block."""

    def ended(self, row: Row) -> None:
        """The row has left; its seat is free."""
        ...
