"""What a restarted lease actor must know of its former life, in one small file.

The file is replaced as a whole before a grant goes out. Nothing is synced to the disk: what the journal guards
against is the death of one process, and a machine that loses power takes every holder along.
"""

from __future__ import annotations

import fcntl
import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from actors.gpu_lease.lease import Holding
from actors.gpu_lease.messages import Reserve
from actors.gpu_lease.process import Process, is_alive

_log = logging.getLogger(__name__)
_SWEEP_AGE_S = 86400.0


@dataclass(frozen=True, slots=True)
class Record:
    """The content of a journal."""

    epoch: int
    """Life of the lease actor that wrote it."""
    holding: Holding | None = None
    """Who may be running MLX."""
    bookings: tuple[Reserve, ...] = ()
    """The ledger."""


class Journal:
    """One lease actor's journal. Opening it waits until an earlier life of the actor is really gone.

    Raises:
        OSError: the folder cannot be made or written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        _make(path.parent)
        self._lock = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def read(self) -> Record | None:
        """The last record; None when there is none. One that cannot be read is set aside and said."""
        return _read(self._path)

    def write(self, record: Record) -> None:
        """Replace the record; after this returns, the next life of the actor will find it. Raises OSError."""
        _make(self._path.parent)  # People empty their cache folders while servers run.
        fresh = self._path.with_suffix(".new")
        with open(fresh, "wb", opener=_private) as file:
            file.write(msgspec.json.encode(record))
        fresh.replace(self._path)

    def close(self) -> None:
        """Let the next life in."""
        os.close(self._lock)


def sweep(folder: Path, alive: Callable[[Process], bool] = is_alive) -> int:
    """Remove the journals of servers that ended more than a day ago; how many."""
    removed = 0
    for path in folder.glob("lease-*.json"):
        if not _locked(path.with_suffix(".lock")) and _forgotten(path, alive):
            path.unlink(missing_ok=True)
            path.with_suffix(".lock").unlink(missing_ok=True)
            removed += 1
    return removed


def _forgotten(path: Path, alive: Callable[[Process], bool]) -> bool:
    try:
        old = time.time() - path.stat().st_mtime > _SWEEP_AGE_S
    except FileNotFoundError:
        return False  # Somebody else sweeps too.
    record = _read(path) if old else None
    if record is None:
        return False
    processes = [Process(booking.pid, booking.started) for booking in record.bookings]
    if record.holding is not None:
        processes.append(record.holding.key.process)
    return not any(alive(process) for process in processes)


def _read(path: Path) -> Record | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Record)
    except FileNotFoundError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        # A torn file cannot come from a dead process, only from a crash of the machine, which no holder outlived.
        _log.warning("the lease journal %s cannot be read (%s); set aside", path, error)
        path.replace(path.with_suffix(".bad"))
        return None


def _locked(path: Path) -> bool:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _make(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
