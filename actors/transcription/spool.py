"""The audio of live sessions on the disk, so that a session outlives the process that serves it. Blocks.

    <folder>/<session>/head     how it was opened, as bytes that the session's host understands
    <folder>/<session>/audio    chunks, each with a header; the file is locked by whoever serves the session
    <folder>/<session>/owner    name of that process
    <folder>/<session>.over     left behind by a session that is over: why

The operating system lifts the lock of a process that dies. Chunks are in the kernel's hands before they are
acknowledged, so the death of a process loses none; a power failure may. Only the owner of the folder can read it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import struct
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from actors.transcription.wav import Samples

NAME = re.compile(r"[a-z]{1,16}-[A-Za-z0-9_-]{1,64}\.[0-9a-f]{32}")
"""Names of sessions; nothing else becomes a path."""

CHUNK_ID_BYTES = 16

REMEMBERED_S = 3600.0
"""How long it is remembered why a session ended."""

_HEADER = struct.Struct("<4sII16sI")
_MAGIC = b"TSP2"
_LEVEL = 1


class Spool:
    """The files of one session, locked by this process. `SpoolFolder` makes them."""

    def __init__(self, folder: Path, file: int) -> None:
        self._folder = folder
        self._file = file
        self._size = 0
        """Bytes of whole chunks."""
        self.last_chunk = b""
        """Id of the last chunk; empty while there is none."""

    @property
    def head(self) -> bytes:
        """What was given to `SpoolFolder.create`."""
        return (self._folder / "head").read_bytes()

    def append(self, chunk_id: bytes, samples: Samples) -> None:
        """Add a chunk. Raises `OSError` where the disk takes no more; then nothing was added."""
        # Compressed, for a small file may hold hours of silence.
        content = zlib.compress(np.ascontiguousarray(samples, dtype="<f4").data, _LEVEL)
        header = _HEADER.pack(_MAGIC, len(samples), len(content), chunk_id, zlib.crc32(content))
        try:
            _write(self._file, header, self._size)
            _write(self._file, content, self._size + len(header))
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self._size)
            raise
        self._size += len(header) + len(content)
        self.last_chunk = chunk_id

    def read(self) -> Iterator[Samples]:
        """Every chunk from the first one on. What a dying process left half written is cut off.

        Raises:
            OSError: it cannot be read, or has another format.
        """
        self._size, self.last_chunk = 0, b""
        while True:
            header = os.pread(self._file, _HEADER.size, self._size)
            if len(header) < _HEADER.size:
                break
            magic, count, size, chunk_id, checksum = _HEADER.unpack(header)
            content = os.pread(self._file, size, self._size + _HEADER.size)
            if magic != _MAGIC and not self._size:
                raise OSError("another version of Troupe wrote it")
            if magic != _MAGIC or len(content) < size or zlib.crc32(content) != checksum:
                break
            self._size += _HEADER.size + len(content)
            self.last_chunk = chunk_id
            samples = np.frombuffer(zlib.decompress(content, bufsize=4 * count), dtype="<f4")
            yield samples.astype(np.float32, copy=False)
        os.ftruncate(self._file, self._size)

    def touch(self) -> None:
        """The client was heard of."""
        os.utime(self._file)

    def idle_s(self) -> float:
        """Seconds since it was."""
        return time.time() - os.fstat(self._file).st_mtime

    def close(self) -> None:
        """Let go of it; whoever comes next may serve the session. May be repeated."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def remove(self, reason: str | None) -> None:
        """Delete the audio, and remember why unless `reason` is None. May be repeated."""
        if reason is not None:
            (self._folder.parent / f"{self._folder.name}.over").write_text(reason, encoding="utf-8")
        shutil.rmtree(self._folder, ignore_errors=True)
        self.close()


class SpoolFolder:
    """All sessions of this machine. Several processes use it at once.

    Args:
        folder: made when it is missing, and closed to others.
        owner: name of this process towards the others.

    Raises:
        OSError: the folder cannot be made.
    """

    def __init__(self, folder: Path, owner: str) -> None:
        self._folder = folder
        self._owner = owner
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)

    def create(self, name: str, head: bytes, most: int) -> Spool | None:
        """A new session; None when there are `most` of them already. Raises `OSError`."""
        assert NAME.fullmatch(name)
        with self._alone():
            if sum(1 for _ in self._sessions()) >= most:
                return None
            path = self._folder / name
            path.mkdir(mode=0o700)
            try:
                _create(path / "head", head)
                _create(path / "audio", b"")
                spool = self._lock(path)
            except OSError:
                shutil.rmtree(path, ignore_errors=True)
                raise
        assert spool is not None, "nobody else knows the name"
        return spool

    def adopt(self, name: str) -> Spool | str | None:
        """The session of a process that is gone; the name of the one that serves it; None where there is none.

        Raises `OSError`.
        """
        path = self._folder / name
        if not NAME.fullmatch(name) or not (path / "audio").exists():
            return None
        spool = self._lock(path)
        if spool is not None:
            return spool
        try:
            return (path / "owner").read_text(encoding="utf-8")
        except FileNotFoundError:
            return "" if path.exists() else None

    def why_over(self, name: str) -> str | None:
        """Why a session ended; None when nobody knows."""
        if not NAME.fullmatch(name):
            return None
        try:
            return (self._folder / f"{name}.over").read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def sweep(self, idle_s: float) -> int:
        """End the sessions that nobody serves and nobody asked for during `idle_s`; how many there were."""
        found = 0
        with self._alone():
            for path in list(self._sessions()):
                with contextlib.suppress(FileNotFoundError):  # its host was faster
                    found += self._expire(path, idle_s)
        for path in self._folder.glob("*.over"):
            with contextlib.suppress(FileNotFoundError):
                if time.time() - path.stat().st_mtime > max(idle_s, REMEMBERED_S):
                    path.unlink()
        return found

    def _expire(self, path: Path, idle_s: float) -> bool:
        if time.time() - (path / "audio").stat().st_mtime <= idle_s:
            return False
        spool = self._lock(path)
        if spool is None:
            return False
        spool.remove("expired")
        return True

    def _sessions(self) -> Iterator[Path]:
        return (path for path in self._folder.iterdir() if NAME.fullmatch(path.name))

    def _lock(self, path: Path) -> Spool | None:
        """The session's files, if nobody has them. A session that was removed meanwhile is nobody's."""
        file = os.open(path / "audio", os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(file).st_nlink == 0:
                raise FileNotFoundError(path)
            _replace(path / "owner", self._owner.encode())
        except BlockingIOError:
            os.close(file)
            return None
        except OSError:
            os.close(file)
            raise
        return Spool(path, file)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        file = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
        finally:
            os.close(file)


def _write(file: int, content: bytes | memoryview, at: int) -> None:
    view = memoryview(content)
    while view:
        written = os.pwrite(file, view, at)
        view, at = view[written:], at + written


def _create(path: Path, content: bytes) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        _write(file, content, 0)
    finally:
        os.close(file)


def _replace(path: Path, content: bytes) -> None:
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    _create(fresh, content)
    fresh.replace(path)
