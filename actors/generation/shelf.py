"""The tensors of stored prefixes. The prompt-cache manager decides what stays; this only holds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
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
    """Bytes, states included."""
    states: Mapping[int, kv.States] = field(default_factory=dict)
    """What was kept at shorter lengths, ascending, so that the caches can be cut there."""

    @property
    def trimmable(self) -> bool:
        """Whether they can be cut at any length."""
        return kv.trimmable(self.caches)

    @property
    def boundaries(self) -> tuple[int, ...]:
        """Shorter lengths at which they can be cut in any case."""
        return tuple(self.states)


class Shelf:
    """Stored prefixes by name. Engine thread only."""

    def __init__(self) -> None:
        self._stored: dict[EntryId, Stored] = {}
        self.size = 0

    def put(
        self, entry: EntryId, caches: list[Any], length: int, states: Mapping[int, kv.States] | None = None
    ) -> Stored:
        """Keep caches made by `kv.exact`, and states made by `kv.states` at shorter lengths, ascending."""
        states = states or {}
        size = kv.size(caches) + sum(kv.states_size(kept) for kept in states.values())
        stored = Stored(caches, length, size, states)
        self._stored[entry] = stored
        self.size += stored.size
        return stored

    def get(self, entry: EntryId) -> Stored | None:
        """A prefix as it is stored; None when it is gone."""
        return self._stored.get(entry)

    def take(self, entry: EntryId, length: int) -> list[Any] | None:
        """Caches for the first `length` tokens of an entry; None when it is gone. Nothing is copied."""
        stored = self._stored.get(entry)
        if stored is None:
            return None
        return kv.prefix(stored.caches, length, stored.length, stored.states.get(length))

    def states(self, entry: EntryId, length: int) -> dict[int, kv.States]:
        """What is kept of an entry below `length`, for a row that goes on from there. Nothing is copied."""
        stored = self._stored.get(entry)
        return {} if stored is None else {at: kept for at, kept in stored.states.items() if at < length}

    def drop(self, entry: EntryId) -> None:
        stored = self._stored.pop(entry, None)
        if stored is not None:
            self.size -= stored.size
