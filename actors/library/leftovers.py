"""Parts of files that a killed download left in the hub's cache: carried on where that is safe, deleted otherwise.

The hub library gives every attempt a file of its own and never looks at an earlier one, so a kill late in a large
file would cost all of it, and the part would lie there for ever. A part is carried on only if the finished file can be
proven by its SHA-256. Files in the hub's chunked storage are written out of order; their parts are deleted.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

if TYPE_CHECKING:
    from tqdm import tqdm

log = logging.getLogger("troupe.library")

_SUFFIX = ".incomplete"


@dataclass(frozen=True, slots=True)
class Provable:
    """A file that a part may belong to."""

    path: str
    """Within the repository."""
    url: str
    """Where it is fetched from."""
    sha256: str
    """Of its content; also the name of its blob."""
    size: int
    """Its bytes."""


class Leftovers:
    """Parts in one repository's cache folder. Blocks for as long as a download takes.

    Args:
        hub_cache: the hub's cache folder.
        repository: name of the repository's folder in it.
    """

    def __init__(self, hub_cache: Path, repository: str) -> None:
        self._blobs = hub_cache / repository / "blobs"
        self._locks = hub_cache / ".locks" / repository

    def carry_on(self, files: Iterable[Provable], headers: dict[str, str], bar: type[tqdm]) -> None:
        """Complete the parts of these files, and delete all other parts that nobody is writing.

        Raises:
            Exception: the hub's, when a part cannot be completed; it is kept then.
        """
        known = {file.sha256: file for file in files}
        for etag in sorted({path.name.partition(".")[0] for path in self._parts()}):
            with self._alone(etag) as alone:
                if alone:
                    self._settle(etag, known.get(etag), headers, bar)

    def _parts(self, etag: str = "*") -> list[Path]:
        return [*self._blobs.glob(f"{etag}.*{_SUFFIX}"), *self._blobs.glob(f"{etag}{_SUFFIX}")]

    def _settle(self, etag: str, file: Provable | None, headers: dict[str, str], bar: type[tqdm]) -> None:
        parts = sorted(set(self._parts(etag)), key=lambda path: path.stat().st_size)
        blob = self._blobs / etag
        if file is not None and not blob.exists() and parts and 0 < parts[-1].stat().st_size <= file.size:
            best = parts.pop()
            _complete(best, file, headers, bar)
            if _sha256(best) == etag:
                best.replace(blob)
            else:
                log.warning("the part of %s was damaged; it is fetched anew", file.path)
                best.unlink()
        for part in parts:
            part.unlink(missing_ok=True)

    @contextmanager
    def _alone(self, etag: str) -> Iterator[bool]:
        """Whether the hub library's own lock for this file is ours for the length of the block."""
        lock = FileLock(self._locks / f"{etag}.lock", mode=0o664)
        try:
            self._locks.mkdir(parents=True, exist_ok=True)
            lock.acquire(blocking=False)
        except Timeout:
            yield False
            return
        try:
            yield True
        finally:
            lock.release()


def _complete(part: Path, file: Provable, headers: dict[str, str], bar: type[tqdm]) -> None:
    from huggingface_hub.file_download import http_get

    size = part.stat().st_size
    log.info("carrying on with %s at %d of %d bytes", file.path, size, file.size)
    with part.open("ab") as stream:
        http_get(
            file.url,
            stream,
            resume_size=size,
            headers=headers,
            expected_size=file.size,
            displayed_filename=file.path,
            tqdm_class=bar,
        )


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
