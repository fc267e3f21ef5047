"""The texts that wait to be embedded, and which of them are computed together next. Pure."""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from actors.ids import RequestId

WASTE = 2
"""A text joins a batch whose longest one is at most this many times longer: the rest would be padding."""

MOST_ROWS = 256
"""Texts in a batch at most."""


@dataclass(eq=False)
class Job:
    """One request in line. Its texts may be in several batches."""

    request_id: RequestId
    """Its name."""
    texts: Sequence[Sequence[int]]
    """Token ids; none is empty."""
    ended: bool = False
    """Whether nobody waits for it any more: answered, failed, or given up."""
    _waiting: list[tuple[int, int]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._waiting = sorted((len(text), index) for index, text in enumerate(self.texts))

    @property
    def waiting(self) -> int:
        """Texts that are in no batch yet."""
        return len(self._waiting)

    def longest(self, most: int = sys.maxsize) -> int:
        """Length of the longest waiting text of at most `most` tokens; 0 when there is none."""
        place = self._place(most)
        return self._waiting[place][0] if place >= 0 else 0

    def take(self, most: int) -> int:
        """Index of that text, which waits no longer."""
        return self._waiting.pop(self._place(most))[1]

    def _place(self, most: int) -> int:
        return bisect_right(self._waiting, (most, len(self.texts))) - 1


@dataclass(frozen=True, slots=True)
class Item:
    """One text of a batch."""

    job: Job
    """Whose."""
    index: int
    """Which of its texts."""

    @property
    def tokens(self) -> Sequence[int]:
        return self.job.texts[self.index]


class Line:
    """Requests take turns in leading a batch, so that a large one does not keep small ones waiting."""

    def __init__(self) -> None:
        self._jobs: deque[Job] = deque()

    def __len__(self) -> int:
        """Texts in line."""
        return sum(job.waiting for job in self._jobs)

    def join(self, job: Job) -> None:
        self._jobs.append(job)

    def leave(self, job: Job) -> None:
        """Forget a request's waiting texts. One that is not in line is ignored."""
        if job in self._jobs:
            self._jobs.remove(job)

    def next(self, budget: int) -> list[Item]:
        """The next batch, which leaves the line; empty when nobody waits.

        It is the longest text of the request whose turn it is, and whatever has about its length while the longest
        one's length times the rows stays within `budget`. A longer text makes a batch of its own.
        """
        if not self._jobs:
            return []
        leader = self._jobs[0]
        width = leader.longest()
        items = [Item(leader, leader.take(width))]
        rows = min(MOST_ROWS, budget // width)
        for job in list(self._jobs):
            while len(items) < rows and job.longest(width) * WASTE >= width:
                items.append(Item(job, job.take(width)))
        self._jobs.rotate(-1)
        self._jobs = deque(job for job in self._jobs if job.waiting)
        return items
