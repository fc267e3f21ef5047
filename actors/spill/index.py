"""The list of records in SQLite, so that opening a large directory reads one file instead of thousands.

It is an aid, not the truth: the files are. What is not in it is found by its header, what it names and is gone is
forgotten, and where it cannot be used at all, the store goes on without. All methods belong to one thread.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from actors.spill.record import Record

log = logging.getLogger("troupe.spill.index")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS records (
    name TEXT PRIMARY KEY, model TEXT NOT NULL, kind TEXT NOT NULL, start INTEGER NOT NULL, stop INTEGER NOT NULL,
    before BLOB NOT NULL, after BLOB NOT NULL, parent TEXT, tokens BLOB NOT NULL, size INTEGER NOT NULL,
    used REAL NOT NULL
) WITHOUT ROWID
"""
_VERSION = 1


class Index:
    """See the module.

    Args:
        path: the database; made when it is not there, and set aside as `.bad` when it is damaged.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._db: sqlite3.Connection | None = None

    def open(self) -> list[tuple[Record, float]]:
        """Every record and when it was last used, in seconds since the epoch. Never raises for a bad database."""
        for _ in range(2):
            try:
                return self._open()
            except sqlite3.DatabaseError as error:
                self.close()
                if isinstance(error, sqlite3.OperationalError):
                    log.warning("ssd cache: the index cannot be used, the records are read instead: %s", error)
                    return []
                log.warning("ssd cache: the index is damaged and is made anew: %s", error)
                self._set_aside()
        return []

    def add(self, records: Iterable[tuple[Record, float]]) -> None:
        """Note new records. A failure is logged once and ends the use of the database."""
        rows = [(r.name, r.model, r.kind, r.start, r.stop, r.before, r.after, r.parent, r.tokens, r.size, used)
                for r, used in records]  # fmt: skip
        self._run("INSERT OR REPLACE INTO records VALUES (?,?,?,?,?,?,?,?,?,?,?)", rows)

    def remove(self, names: Iterable[str]) -> None:
        """Forget records."""
        self._run("DELETE FROM records WHERE name = ?", [(name,) for name in names])

    def touch(self, used: Mapping[str, float]) -> None:
        """Note when records were last used."""
        self._run("UPDATE records SET used = ? WHERE name = ?", [(when, name) for name, when in used.items()])

    def close(self) -> None:
        """May be repeated."""
        if self._db is not None:
            self._db.close()
            self._db = None

    def _open(self) -> list[tuple[Record, float]]:
        db = self._db = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        self._path.chmod(0o600)
        db.execute("PRAGMA journal_mode = WAL")
        # A commit that a power cut takes back costs the reading of a few headers.
        db.execute("PRAGMA synchronous = NORMAL")
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, _VERSION):
            raise sqlite3.DatabaseError(f"its version is {version}")
        db.execute(_SCHEMA)
        db.execute(f"PRAGMA user_version = {_VERSION}")
        return [(Record(*row[:10]), row[10]) for row in db.execute("SELECT * FROM records")]

    def _run(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        if self._db is None or not rows:
            return
        try:
            self._db.execute("BEGIN")
            self._db.executemany(statement, rows)
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            log.warning("ssd cache: the index cannot be written and is not used any more: %s", error)
            self.close()

    def _set_aside(self) -> None:
        for end in ("-wal", "-shm"):
            self._path.with_name(self._path.name + end).unlink(missing_ok=True)
        if self._path.exists():
            self._path.replace(self._path.with_suffix(".bad"))
