"""How bytes get to a disk and stay there. The tests put failures in its place."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

_BUFFER = 2**20


class Files:
    """Blocking operations of the file system, each of which may raise OSError."""

    def write(self, path: Path, pieces: Iterable[bytes | memoryview]) -> None:
        """Make a new file, readable for its owner alone, and wait until the disk has it."""
        with open(path, "wb", buffering=_BUFFER, opener=_private) as file:
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())

    def rename(self, old: Path, new: Path) -> None:
        """Replace `new` at once."""
        old.replace(new)

    def sync_folder(self, folder: Path) -> None:
        """Wait until the disk has the folder's names."""
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def remove(self, path: Path) -> None:
        """Remove a file, if it is there."""
        path.unlink(missing_ok=True)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_TRUNC, 0o600)


def private_folder(path: Path) -> None:
    """Make a folder that only its owner may look into."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.chmod(0o700)
