"""What the library keeps on disk between two lives: a folder of small JSON files, owned by one library at a time."""

from __future__ import annotations

import json
import logging
import os
import secrets
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

log = logging.getLogger("troupe.library")


def state_folder(configured: str | None) -> Path:
    """The configured folder, or `~/.troupe`."""
    return Path(configured).expanduser() if configured else Path.home() / ".troupe"


class Storage:
    """Files of one folder. Every method blocks for milliseconds; nothing is created before something is written.

    The folder may belong to several servers. The first to ask owns it; the others read and write nothing but secrets.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock: FileLock | None = None
        self._warned = False

    def own(self) -> bool:
        """Whether this library owns the folder; tries to. May be repeated."""
        if self._lock is not None and self._lock.is_locked:
            return True
        lock = FileLock(self._folder / ".library.lock", thread_local=False)  # taken and asked for in many threads
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock.acquire(blocking=False)
        except (Timeout, OSError) as error:
            if not self._warned:
                log.warning("%s is in use or cannot be written; downloads are not remembered: %s", self._folder, error)
            self._warned = True
            return False
        self._lock = lock
        return True

    def release(self) -> None:
        """Give the folder up. May be repeated."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def read(self, name: str) -> Any:
        """Content of a file; None when there is none or it is damaged."""
        try:
            return json.loads((self._folder / name).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            log.warning("%s cannot be read: %s", self._folder / name, error)
            return None

    def write(self, name: str, content: Any) -> None:
        """Replace a file, whole or not at all; readable by its owner only.

        Raises:
            OSError: the folder cannot be written.
        """
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh = self._folder / f".{name}.{secrets.token_hex(4)}"
        try:
            descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
                json.dump(content, stream)
                stream.flush()
                os.fsync(stream.fileno())
            fresh.replace(self._folder / name)
        finally:
            fresh.unlink(missing_ok=True)

    def remove(self, name: str) -> None:
        """Delete a file. May be repeated. Raises OSError."""
        (self._folder / name).unlink(missing_ok=True)
