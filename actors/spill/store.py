"""The directory of the SSD tier: records, their index, a lock, and what was set aside.

    lock   index.sqlite   records/<name>.kv   quarantine/<name>.kv

A record is written under another name, made durable and only then given its own, so a file with a record's name is
whole unless the disk changed it. One process has the directory at a time. All methods block and belong to one thread.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from actors.spill.catalog import Catalog
from actors.spill.codec import Damaged, encode, read_record
from actors.spill.eviction import victims
from actors.spill.files import Files, private_folder
from actors.spill.index import Index
from actors.spill.record import Draft, Record

log = logging.getLogger("troupe.spill.store")

SUFFIX = ".kv"
QUARANTINED = 32
"""Damaged files kept for a look; the oldest go first."""


class Unavailable(Exception):
    """The directory cannot be used now. The message says why, in words."""


class NoRoom(Exception):
    """The budget has no room for a record and what it hangs on. Nothing was written."""


@dataclass(frozen=True, slots=True)
class Written:
    """What a write did."""

    durable: tuple[Record, ...]
    """The records of all drafts; those that had been there before included."""
    removed: tuple[str, ...]
    """Records that had to go for them."""
    size: int
    """Bytes written."""


class Store:
    """See the module.

    Args:
        folder: the directory; made when it is not there.
        max_bytes: budget of all records.
        files: the way to the disk.
        now: seconds since the epoch.
    """

    def __init__(
        self, folder: Path, max_bytes: int, files: Files | None = None, now: Callable[[], float] = time.time
    ) -> None:
        self.folder = folder
        self.records = folder / "records"
        self.catalog = Catalog()
        self.evictions = 0
        self.set_aside_count = 0
        self._max_bytes = max_bytes
        self._files = files or Files()
        self._now = now
        self._index = Index(folder / "index.sqlite")
        self._used: dict[str, float] = {}
        self._lock: int | None = None

    @property
    def is_open(self) -> bool:
        return self._lock is not None

    def path(self, name: str) -> Path:
        """Where a record lies."""
        return self.records / f"{name}{SUFFIX}"

    def open(self) -> None:
        """Take the directory and learn what is in it.

        Raises:
            Unavailable: somebody else has it, or it cannot be made or read.
        """
        try:
            if not self.folder.is_dir():
                private_folder(self.folder)
            self._lock = _lock(self.folder / "lock")
            private_folder(self.records)
            self._learn()
            self._shrink()
        except OSError as error:
            self.close()
            raise Unavailable(f"{self.folder} cannot be used: {error.strerror or error}") from error

    def write(self, drafts: Sequence[Draft]) -> Written:
        """Make records durable, all or none. Known ones are not written again.

        Raises:
            NoRoom: they do not fit into the budget.
            OSError: the disk refuses; what was begun is removed.
        """
        fresh = {draft.name: draft for draft in drafts if draft.name not in self.catalog}
        content = {name: encode(draft) for name, draft in fresh.items()}
        sizes = {name: sum(map(len, pieces)) for name, pieces in content.items()}
        removed = self._make_room(sum(sizes.values()), drafts)
        temporary = {name: self.records / f"{name}.tmp" for name in fresh}
        try:
            for name, path in temporary.items():
                self._files.write(path, content[name])
            for name, path in temporary.items():
                self._files.rename(path, self.path(name))
            if fresh:
                self._files.sync_folder(self.records)
        except OSError:
            self._undo(temporary)
            raise
        now = self._now()
        for name, draft in fresh.items():
            self.catalog.add(_record(draft, sizes[name]))
            self._used[name] = now
        durable = tuple(record for draft in drafts if (record := self.catalog.get(draft.name)) is not None)
        self._index.add((record, now) for record in durable if record.name in fresh)
        return Written(durable, tuple(removed), sum(sizes.values()))

    def touch(self, names: Iterable[str]) -> None:
        """These records were used now."""
        now = self._now()
        used = {name: now for name in names if name in self.catalog}
        self._used.update(used)
        self._index.touch(used)

    def remove(self, names: Iterable[str]) -> list[str]:
        """Remove records; returns those that were there. A file that cannot be removed is forgotten all the same."""
        gone: list[str] = []
        for name in names:
            with contextlib.suppress(OSError):
                self._files.remove(self.path(name))
            if self.catalog.discard(name) is not None:
                gone.append(name)
            self._used.pop(name, None)
        self._index.remove(gone)
        return gone

    def set_aside(self, name: str, reason: str) -> None:
        """A record was found damaged: it is moved out of the way and never used again."""
        if self.path(name).exists():
            log.warning("ssd cache: the record %s is set aside: %s", name, reason)
            self.set_aside_count += 1
            self._quarantine(self.path(name))
        self.remove([name])

    def close(self) -> None:
        """Give the directory to others. May be repeated."""
        self._index.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _learn(self) -> None:
        """Compare the index with the files: both may be behind after a crash."""
        known = {record.name: (record, used) for record, used in self._index.open()}
        found: dict[str, int] = {}
        with os.scandir(self.records) as entries:
            for entry in entries:
                stem, dot, ending = entry.name.rpartition(".")
                if dot + ending == ".tmp":
                    self._files.remove(Path(entry.path))
                elif dot + ending == SUFFIX:
                    found[stem] = entry.stat(follow_symlinks=False).st_size
        records: list[Record] = []
        for name, size in found.items():
            record, used = known.get(name, (None, 0.0))
            if record is None or record.size != size:
                record, used = self._read(name), self._now()
                if record is None:
                    continue
                self._index.add([(record, used)])
            records.append(record)
            self._used[name] = used
        self.catalog = Catalog(records)
        self._index.remove([name for name in known if name not in self.catalog])

    def _read(self, name: str) -> Record | None:
        try:
            return read_record(self.path(name))
        except (Damaged, OSError) as error:
            self.set_aside(name, str(error))
            return None

    def _shrink(self) -> None:
        """The budget may have been made smaller since."""
        going = victims(self.catalog, self._used, self.catalog.size - self._max_bytes, ())
        self.evictions += len(self.remove(going or ()))

    def _make_room(self, size: int, drafts: Sequence[Draft]) -> list[str]:
        excess = self.catalog.size + size - self._max_bytes
        kept = {draft.name for draft in drafts} | {draft.parent for draft in drafts if draft.parent is not None}
        # A little more than is needed, so that a full directory does not look for victims with every write.
        slack = self._max_bytes // 64 if excess > 0 else 0
        going = victims(self.catalog, self._used, excess + slack, kept)
        if going is None:
            going = victims(self.catalog, self._used, excess, kept)
        if going is None:
            raise NoRoom(f"{size} bytes and what they continue do not fit into {self._max_bytes}")
        removed = self.remove(going)
        self.evictions += len(removed)
        return removed

    def _undo(self, temporary: dict[str, Path]) -> None:
        # Records that had their names already are whole, but nobody was told of them; the next write makes them anew.
        for name, path in temporary.items():
            for leftover in (path, self.path(name)):
                with contextlib.suppress(OSError):
                    self._files.remove(leftover)

    def _quarantine(self, path: Path) -> None:
        folder = self.folder / "quarantine"
        try:
            private_folder(folder)
            self._files.rename(path, folder / path.name)
            kept = sorted(folder.iterdir(), key=lambda file: file.stat().st_mtime)
            for old in kept[:-QUARANTINED]:
                self._files.remove(old)
        except OSError as error:
            log.warning("ssd cache: %s could not be set aside and is ignored: %s", path.name, error)


def _record(draft: Draft, size: int) -> Record:
    return Record(
        draft.name,
        draft.model,
        draft.kind,
        draft.start,
        draft.stop,
        draft.before,
        draft.after,
        draft.parent,
        draft.tokens,
        size,
    )


def _lock(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise Unavailable(f"another server uses {path.parent}") from None
    return descriptor
