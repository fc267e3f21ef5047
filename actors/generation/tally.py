"""Counters of the engine. Written by the engine thread, read by anybody."""

from __future__ import annotations

import time
from collections import deque

WINDOW_S = 10.0


class Tally:
    """Plain numbers; every one only grows unless it says otherwise."""

    def __init__(self) -> None:
        self.finished = 0
        self.cancelled = 0
        self.failed = 0
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.generated_tokens = 0
        self.steps = 0
        self._recent: deque[tuple[float, int]] = deque()

    def step(self) -> None:
        """One step of the loop."""
        self.steps += 1

    def generated(self, tokens: int) -> None:
        """Tokens read."""
        if not tokens:
            return
        now = time.monotonic()
        self.generated_tokens += tokens
        # One mark a second is enough for a rate, and keeps the step cheap.
        if self._recent and now - self._recent[-1][0] < 1.0:
            return
        self._recent.append((now, self.generated_tokens - tokens))
        while self._recent and now - self._recent[0][0] > WINDOW_S:
            self._recent.popleft()

    def tokens_per_s(self) -> float:
        """Generated tokens a second over the last ten seconds; 0 when there were none."""
        now = time.monotonic()
        recent = [mark for mark in list(self._recent) if now - mark[0] <= WINDOW_S]
        if not recent:
            return 0.0
        start, before = recent[0]
        return (self.generated_tokens - before) / max(now - start, 1.0)
