"""Which entry each session used last: where to look first and what to keep, never a condition for using it. Pure."""

from __future__ import annotations

from collections import OrderedDict

from actors.ids import EntryId
from actors.prompt_cache.residents import Place

_Key = tuple[Place, str]


class Sessions:
    """The latest entry of each session in each place.

    Clients name sessions freely and need not close them, so only the `limit` most recently seen are remembered.
    """

    def __init__(self, limit: int = 4096) -> None:
        self._limit = limit
        self._entries: OrderedDict[_Key, EntryId] = OrderedDict()
        self._keys: dict[EntryId, set[_Key]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def refer(self, place: Place, session: str, entry: EntryId) -> None:
        """`entry` is now the latest of the session there; the one before it is no longer referenced by it."""
        key = (place, session)
        self._drop(key)
        self._entries[key] = entry
        self._keys.setdefault(entry, set()).add(key)
        if len(self._entries) > self._limit:
            self._drop(next(iter(self._entries)))

    def adopt(self, place: Place, session: str, entry: EntryId) -> None:
        """Refer a session to the entry it starts from, unless it already has an entry of its own."""
        key = (place, session)
        if key in self._entries:
            self._entries.move_to_end(key)
        else:
            self.refer(place, session, entry)

    def latest(self, place: Place, session: str) -> EntryId | None:
        """The session's latest entry there."""
        return self._entries.get((place, session))

    def close(self, session: str) -> None:
        """The session is over, everywhere."""
        for key in [key for key in self._entries if key[1] == session]:
            self._drop(key)

    def referenced(self, entry: EntryId) -> bool:
        """Whether some session's latest entry is this one."""
        return entry in self._keys

    def move(self, old: EntryId, new: EntryId) -> None:
        """Sessions of `old` now refer to `new`, which covers it."""
        for key in self._keys.pop(old, set()):
            self._entries[key] = new
            self._keys.setdefault(new, set()).add(key)

    def forget(self, entry: EntryId) -> None:
        """The entry is gone."""
        for key in self._keys.pop(entry, set()):
            del self._entries[key]

    def check(self) -> list[str]:
        """Sentences about broken invariants; empty when all is sound."""
        inverse: dict[EntryId, set[_Key]] = {}
        for key, entry in self._entries.items():
            inverse.setdefault(entry, set()).add(key)
        return [] if inverse == self._keys else ["the sessions and the entries they refer to disagree"]

    def entries(self) -> set[EntryId]:
        """Every referenced entry."""
        return set(self._keys)

    def _drop(self, key: _Key) -> None:
        entry = self._entries.pop(key, None)
        if entry is None:
            return
        keys = self._keys[entry]
        keys.discard(key)
        if not keys:
            del self._keys[entry]
