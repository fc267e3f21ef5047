"""What the RAM tier holds: records in order of use, their bytes, their pins. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from actors.ids import EntryId, Incarnation, RequestId
from actors.prompt_cache.radix import Node


class Place(NamedTuple):
    """Where an entry can be used: prefixes cross neither namespaces nor partitions, tensors never leave a scheduler."""

    namespace: str
    partition: str
    scheduler: Incarnation


@dataclass(slots=True, eq=False)
class Record:
    """One entry. Its token ids live in the tree of its place alone."""

    entry: EntryId
    place: Place
    length: int
    """Tokens."""
    size: int
    """Bytes."""
    trimmable: bool
    boundaries: tuple[int, ...] = ()
    """Shorter lengths at which it can be cut, if it is not trimmable."""
    used: int = 0
    """Number of its last use; higher is more recent."""
    used_at: float = 0.0
    """When that was, in seconds of the manager's clock."""
    pins: dict[RequestId, float] = field(default_factory=dict)
    """When each pin was taken, in seconds of the manager's clock."""
    node: Node[Record] | None = None
    """Its place in the tree. None once it is superseded: it then waits only for its pins to go."""

    @property
    def pinned(self) -> bool:
        return bool(self.pins)


class Residents:
    """All records, least recently used first."""

    def __init__(self) -> None:
        self._records: dict[EntryId, Record] = {}
        self._size = 0
        self._uses = 0

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[Record]:
        return iter(self._records.values())

    def get(self, entry: EntryId) -> Record | None:
        return self._records.get(entry)

    @property
    def size(self) -> int:
        """Bytes of all records."""
        return self._size

    @property
    def pinned_size(self) -> int:
        """Bytes that cannot be freed now."""
        return sum(record.size for record in self if record.pinned)

    def add(self, record: Record) -> None:
        """Take in a new record as the most recently used one."""
        self._records[record.entry] = record
        self._size += record.size
        self.touch(record)

    def touch(self, record: Record) -> None:
        """Make it the most recently used one."""
        self._uses += 1
        record.used = self._uses
        self._records[record.entry] = self._records.pop(record.entry)

    def discard(self, record: Record) -> None:
        """Forget a record."""
        del self._records[record.entry]
        self._size -= record.size

    def check(self) -> list[str]:
        """Sentences about broken invariants; empty when all is sound."""
        faults: list[str] = []
        if self._size != (total := sum(record.size for record in self)):
            faults.append(f"{self._size} bytes are counted, {total} are held")
        uses = [record.used for record in self]
        if uses != sorted(set(uses)):
            faults.append("the records are not in order of use")
        faults.extend(
            f"{record.entry} is superseded, yet nobody pins it"
            for record in self
            if record.node is None and not record.pinned
        )
        return faults
