"""A hub's local cache on disk, in the layout of the hub library: blobs, snapshots that link to them, refs."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping
from pathlib import Path

OLD = time.time() - 24 * 3600.0


class HubCache:
    """A cache under a folder; made as it is filled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def repository(self, repo_id: str) -> Path:
        return self.folder / f"models--{repo_id.replace('/', '--')}"

    def snapshot(self, repo_id: str, commit: str, files: Mapping[str, bytes], ref: str | None = None) -> Path:
        """Add a revision; `ref` names it from now on."""
        folder = self.repository(repo_id) / "snapshots" / commit
        for name, content in files.items():
            link = folder / name
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(os.path.relpath(self.blob(repo_id, content), link.parent))
        if ref is not None:
            path = self.repository(repo_id) / "refs" / ref
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(commit)
        return folder

    def checkpoint(self, repo_id: str, source: Path, commit: str = "c" * 40) -> Path:
        """Add a checkpoint folder as the newest revision."""
        return self.snapshot(repo_id, commit, {path.name: path.read_bytes() for path in source.iterdir()}, "main")

    def blob(self, repo_id: str, content: bytes, *, name: str | None = None, age_s: float | None = None) -> Path:
        """Add a file without a name; a day old unless told."""
        path = self.repository(repo_id) / "blobs" / (name or hashlib.sha256(content).hexdigest())
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        at = OLD if age_s is None else time.time() - age_s
        os.utime(path, (at, at))
        return path
