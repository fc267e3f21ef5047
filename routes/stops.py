"""Stop strings, matched on decoded text. Pure."""

from __future__ import annotations

from collections.abc import Sequence


class StopMatcher:
    """Lets text through until a stop string is complete; never lets a part of one through.

    The match is the stop string that is complete first (the longest one among several that end at the same place),
    so the outcome does not depend on how the text was cut into pieces.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._held = ""
        self.matched: str | None = None
        """The stop string that was found; nothing is let through after it."""

    def feed(self, text: str) -> str:
        """Take more text and return what is safe to show."""
        if self.matched is not None or not text:
            return ""
        if not self._stops:
            return text
        pending = self._held + text
        found = self._first_match(pending)
        if found is not None:
            start, self.matched = found
            self._held = ""
            return pending[:start]
        keep = max(_overlap(pending, stop) for stop in self._stops)
        self._held = pending[len(pending) - keep :]
        return pending[: len(pending) - keep]

    def flush(self) -> str:
        """The text has ended: what was held back is no stop string after all."""
        held, self._held = self._held, ""
        return held

    def _first_match(self, text: str) -> tuple[int, str] | None:
        """Start of the match and the stop string."""
        found = [(start + len(stop), start, stop) for stop in self._stops if (start := text.find(stop)) >= 0]
        if not found:
            return None
        _, start, stop = min(found)
        return start, stop


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of `text` that begins `stop` without completing it."""
    for length in range(min(len(stop) - 1, len(text)), 0, -1):
        if text.endswith(stop[:length]):
            return length
    return 0
