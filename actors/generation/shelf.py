"""The tensors of stored prefixes. The prompt-cache manager decides what stays; this only holds it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from actors.generation import kv
from actors.ids import EntryId


@dataclass(frozen=True, slots=True)
class Stored:
    """One prefix."""

    caches: list[Any]
    """Exact-length caches of one row."""
    length: int
    """Tokens they hold."""
    size: int
    """Bytes."""


class Shelf:
    """Stored prefixes by name. Engine thread only."""

    def __init__(self) -> None:
        self._stored: dict[EntryId, Stored] = {}
        self.size = 0

    def put(self, entry: EntryId, caches: list[Any], length: int) -> Stored:
        """Keep caches made by `kv.exact`."""
        stored = Stored(caches, length, kv.size(caches))
        self._stored[entry] = stored
        self.size += stored.size
        return stored

    def take(self, entry: EntryId, length: int) -> list[Any] | None:
        """Caches for the first `length` tokens of an entry; None when it is gone. Nothing is copied."""
        stored = self._stored.get(entry)
        return None if stored is None else kv.prefix(stored.caches, length, stored.length)

    def drop(self, entry: EntryId) -> None:
        stored = self._stored.pop(entry, None)
        if stored is not None:
            self.size -= stored.size
