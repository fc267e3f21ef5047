"""Which downloads run, which have ended, and how fast they are. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import msgspec

from actors.clock import Clock
from actors.errors import Conflict, QueueFull
from actors.library.messages import Download, Progress

LISTED = 5
"""Downloads that are remembered; running ones always are."""
MOST_ACTIVE = 4
"""Downloads that may run at once."""
WINDOW_S = 5.0
"""Of time that a rate is taken over."""


@dataclass(slots=True)
class _Run:
    """A download and the last few of its progress reports."""

    download: Download
    marks: deque[tuple[float, int]] = field(default_factory=deque)


class DownloadLedger:
    """Downloads by repository, newest last.

    Args:
        clock: measures rates.
        now: seconds since the epoch.
    """

    def __init__(self, clock: Clock, now: Callable[[], float]) -> None:
        self._clock = clock
        self._now = now
        self._runs: dict[str, _Run] = {}
        self.finished = 0
        """Complete since start."""
        self.failed = 0
        """Failed since start."""

    @property
    def active(self) -> tuple[str, ...]:
        """Repositories that are downloaded now."""
        return tuple(repo for repo, run in self._runs.items() if run.download.state == "active")

    def start(self, repo_id: str) -> None:
        """A new download.

        Raises:
            Conflict: this one runs already.
            QueueFull: as many as may run do.
        """
        active = self.active
        if repo_id in active:
            raise Conflict(f"a download for {repo_id} is already in progress")
        if len(active) >= MOST_ACTIVE:
            raise QueueFull(f"{MOST_ACTIVE} downloads are in progress; wait for one of them")
        self._runs.pop(repo_id, None)
        self._runs[repo_id] = _Run(Download(repo_id, "active", self._now()))
        self._forget()

    def progress(self, repo_id: str, news: Progress) -> None:
        """A running download has come further."""
        run = self._runs[repo_id]
        time = self._clock.now()
        # What was on disk before the first report was not received now.
        run.marks.append((time, news.received_bytes))
        while len(run.marks) > 2 and time - run.marks[0][0] > WINDOW_S:
            run.marks.popleft()
        run.download = replace(run.download, **asdict(news))

    def done(self, repo_id: str) -> None:
        """A running download is complete."""
        self.finished += 1
        self._end(repo_id, state="done", current_file=None)

    def fail(self, repo_id: str, error: str) -> None:
        """A running download has failed."""
        self.failed += 1
        self._end(repo_id, state="error", error=error)

    def listing(self) -> tuple[Download, ...]:
        """All that are remembered, newest first."""
        return tuple(replace(run.download, bytes_per_s=self._rate(run)) for run in reversed(self._runs.values()))

    def to_plain(self) -> list[dict[str, Any]]:
        """What a later ledger can be made from."""
        return [asdict(run.download) for run in self._runs.values()]

    def restore(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Take in what `to_plain` of an earlier ledger gave; rows that are none are left out."""
        for row in rows:
            try:
                download = msgspec.convert(row, Download)
            except msgspec.ValidationError:
                continue
            self._runs.setdefault(download.repo_id, _Run(download))

    def _end(self, repo_id: str, **changes: Any) -> None:
        run = self._runs[repo_id]
        run.marks.clear()
        run.download = replace(run.download, finished_at=self._now(), **changes)
        self._forget()

    def _rate(self, run: _Run) -> float:
        if len(run.marks) < 2:
            return 0.0
        (before, first), (_, last) = run.marks[0], run.marks[-1]
        return max(0.0, (last - first) / max(self._clock.now() - before, 0.1))

    def _forget(self) -> None:
        ended = [repo for repo, run in self._runs.items() if run.download.state != "active"]
        for repo in ended[: max(0, len(self._runs) - LISTED)]:
            del self._runs[repo]
