"""Folders in the user's cache that are made once from a pinned source, and made anew when they are damaged."""

from __future__ import annotations

import json
import logging
import shutil
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from actors.errors import StartError
from actors.models import wheel

log = logging.getLogger("troupe.models")

_MARKER = "troupe.json"
_HASHED_UP_TO = 16 * 2**20


@dataclass(frozen=True, slots=True)
class Kept:
    """What a folder should be."""

    folder: Path
    """Where it belongs."""
    what: str
    """Its name in a sentence, such as `the speech starter`."""
    facts: Mapping[str, object]
    """Whatever it was made of; a folder with other facts is made anew."""
    room: int
    """Bytes of disk that making it takes, the download included."""
    build: Callable[[Path, Path], None]
    """Called with (scratch folder, new empty folder); fills the second, may leave anything in the first."""


def ensure(wanted: Kept) -> Path:
    """The folder, made when it is missing or damaged. Blocks for that long.

    May be called by several processes at once: one does the work, the others wait for it. An interrupted call leaves
    nothing behind that a later one would take for finished.

    Raises:
        StartError: it cannot be made or stored.
    """
    folder = wanted.folder
    if is_whole(wanted):
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _lock(folder):
            if not is_whole(wanted):
                _make(wanted)
    except OSError as error:
        raise StartError(f"cannot store {wanted.what} in {folder.parent}: {error.strerror or error}") from None
    return folder


def is_whole(wanted: Kept) -> bool:
    """Whether the folder is there and undamaged. Large files are compared by their length alone."""
    try:
        marker = json.loads((wanted.folder / _MARKER).read_text(encoding="utf-8"))
        return marker == _marker(wanted.folder, wanted.facts)
    except (OSError, ValueError):
        return False


def _make(wanted: Kept) -> None:
    folder = wanted.folder
    for left_over in folder.parent.glob(f".{folder.name}.*.part"):
        shutil.rmtree(left_over)
    free = shutil.disk_usage(folder.parent).free
    if free < wanted.room:
        needed = f"{wanted.room / 1e6:.0f} MB in {folder.parent}"
        raise StartError(f"{wanted.what} needs {needed}, where {free / 1e6:.0f} MB are free")
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", suffix=".part", dir=folder.parent) as scratch:
        fresh = Path(scratch) / "fresh"
        fresh.mkdir()
        wanted.build(Path(scratch), fresh)
        (fresh / _MARKER).write_text(json.dumps(_marker(fresh, wanted.facts), indent=2) + "\n", encoding="utf-8")
        if folder.exists():
            log.warning("%s is damaged or of an older version; replaced", folder)
            shutil.rmtree(folder)
        fresh.rename(folder)


def _marker(folder: Path, facts: Mapping[str, object]) -> dict[str, object]:
    files = sorted(path for path in folder.iterdir() if path.name != _MARKER)
    return {**facts, "files": {path.name: _signature(path) for path in files}}


def _signature(path: Path) -> str:
    size = path.stat().st_size
    return f"{size} bytes" if size > _HASHED_UP_TO else f"{size} bytes, sha256 {wheel.sha256(path)}"


def _lock(folder: Path) -> AbstractContextManager[object]:
    lock = FileLock(folder.with_name(f".{folder.name}.lock"))
    try:
        return lock.acquire(blocking=False)
    except Timeout:
        log.info("another process prepares %s; waiting for it", folder.name)
        return lock.acquire()
