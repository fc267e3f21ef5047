"""Prefixes that are not durable yet, and those that never will be. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass

from actors.ids import EntryId
from actors.prompt_cache.messages import Entry
from actors.spill.catalog import Layout
from actors.spill.plan import Snapshot

REMEMBERED = 1024
"""Lost prefixes that a flush still asks for."""


@dataclass(slots=True, eq=False)
class Pending:
    """A prefix in line."""

    entry: Entry
    """As the manager knows it."""
    snapshot: Snapshot
    """What has to be durable."""
    orphaned: bool = False
    """The manager has given it up: its tensors are kept only until it is written."""
    not_before: float = 0.0
    """When it may be tried (again), on the monotonic clock."""
    tried_at: float = 0.0
    """When it was last tried in vain."""
    written: bool = False
    """It is durable."""
    gone: bool = False
    """It has left the line, durable or not."""

    def settled_since(self, moment: float) -> bool:
        """Whether it has left the line, or failed after a moment."""
        return self.gone or self.tried_at >= moment


@dataclass(frozen=True, slots=True)
class Counts:
    """Since start."""

    written: int
    """Prefixes made durable."""
    dropped: int
    """Prefixes given up: the queue or the budget had no room."""
    failed: int
    """Tries that failed."""


class Unwritten:
    """A line, first come, first served.

    Args:
        max_orphaned: bytes of tensors kept only for the sake of writing them.
    """

    def __init__(self, max_orphaned: int) -> None:
        self._max_orphaned = max_orphaned
        self._line: OrderedDict[EntryId, Pending] = OrderedDict()
        self._lost: OrderedDict[tuple[bytes, bytes], Snapshot] = OrderedDict()
        self._written = self._dropped = self._failed = 0

    @property
    def names(self) -> Container[EntryId]:
        """Entries in the line."""
        return self._line.keys()

    def __len__(self) -> int:
        return len(self._line)

    def __iter__(self) -> Iterator[Pending]:
        return iter(self._line.values())

    def __contains__(self, pending: Pending) -> bool:
        return self._line.get(pending.entry.entry) is pending

    def add(self, pending: Pending) -> None:
        """Join the line; an entry that is in it already keeps its place."""
        self._line.setdefault(pending.entry.entry, pending)

    def next(self, now: float) -> Pending | None:
        """The first one that may be tried."""
        return next((pending for pending in self if pending.not_before <= now), None)

    def done(self, pending: Pending) -> bool:
        """It is durable. True when its tensors were kept for this alone."""
        pending.written = True
        self._written += 1
        return self._leave(pending)

    def lose(self, pending: Pending) -> bool:
        """It cannot be written. True when its tensors were kept for this alone."""
        self._dropped += 1
        self._remember(pending.snapshot)
        return self._leave(pending)

    def postpone(self, pending: Pending, now: float, seconds: float, failed: bool) -> None:
        """A try was in vain. The others go first the next time."""
        self._failed += failed
        pending.tried_at, pending.not_before = now, now + seconds
        if pending in self:
            self._line.move_to_end(pending.entry.entry)

    def hurry(self) -> list[Pending]:
        """Let all be tried at once. Returns them."""
        for pending in self:
            pending.not_before = 0.0
        return list(self)

    def release(self, entry: EntryId, layout: Layout) -> tuple[bool, list[Pending]]:
        """The manager has given an entry up.

        Returns:
            Whether its tensors have to stay, and whose must go now.
        """
        pending = self._line.get(entry)
        if pending is None:
            return False, []
        if any(_covers(other, pending, layout) for other in self if other is not pending):
            self._leave(pending)
            return False, []
        pending.orphaned = True
        dropped: list[Pending] = []
        for orphan in [one for one in self if one.orphaned]:
            if self._orphaned_bytes() <= self._max_orphaned:
                break
            self.lose(orphan)
            dropped.append(orphan)
        return pending in self, [one for one in dropped if one is not pending]

    def clear(self) -> list[Pending]:
        """Nothing can be written. Returns those whose tensors were kept for this alone."""
        orphans = [pending for pending in self if pending.orphaned]
        for pending in list(self):
            self._leave(pending)
        return orphans

    def missing(self, durable: Callable[[Snapshot], bool]) -> list[Snapshot]:
        """Lost prefixes that are not durable by other means."""
        self._lost = OrderedDict((key, one) for key, one in self._lost.items() if not durable(one))
        return list(self._lost.values())

    def counts(self) -> Counts:
        return Counts(self._written, self._dropped, self._failed)

    def _orphaned_bytes(self) -> int:
        return sum(pending.entry.size for pending in self if pending.orphaned)

    def _leave(self, pending: Pending) -> bool:
        pending.gone = True
        if pending in self:
            del self._line[pending.entry.entry]
        return pending.orphaned

    def _remember(self, snapshot: Snapshot) -> None:
        self._lost[snapshot.seed, snapshot.tokens] = snapshot
        while len(self._lost) > REMEMBERED:
            self._lost.popitem(last=False)


def _covers(other: Pending, pending: Pending, layout: Layout) -> bool:
    """Whether writing `other` makes all of `pending` durable."""
    theirs, ours = other.snapshot, pending.snapshot
    if theirs.seed != ours.seed or not theirs.tokens.startswith(ours.tokens):
        return False
    return not layout.states or set(ours.ends) <= set(theirs.ends)
