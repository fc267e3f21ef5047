"""From probabilities of speech to spans of it: hysteresis, least lengths, padding. Pure.

Silero's own rules: speech begins at the threshold, and ends where the probability stays 0.15 below it for 100 ms.
"""

from __future__ import annotations

from dataclasses import dataclass

FRAME = 512
"""Samples that one probability stands for, 32 ms."""

RATE = 16_000

MARGIN = RATE // 2
"""Samples around the speech that a trimmed clip keeps."""

_HYSTERESIS = 0.15
_LEAST_SILENCE = RATE // 10
_PADDING = RATE * 30 // 1000


@dataclass(frozen=True, slots=True)
class Span:
    """Speech, in samples from the start of the clip."""

    start: int
    end: int

    @property
    def seconds(self) -> dict[str, float]:
        """As it is shown."""
        return {"start": round(self.start / RATE, 3), "end": round(self.end / RATE, 3)}


class SpeechSpans:
    """Takes probabilities frame by frame."""

    def __init__(self, threshold: float, least_speech_ms: float) -> None:
        self._threshold = threshold
        self._low = max(threshold - _HYSTERESIS, 0.01)
        self._least = RATE * least_speech_ms / 1000
        self._at = 0
        self._start: int | None = None
        self._quiet: int | None = None
        self._done: list[Span] = []

    def feed(self, probability: float) -> None:
        """The next frame."""
        here = self._at
        self._at += FRAME
        if probability >= self._threshold:
            self._quiet = None
            if self._start is None:
                self._start = here
        elif probability < self._low and self._start is not None:
            if self._quiet is None:
                self._quiet = here
            if here - self._quiet >= _LEAST_SILENCE:
                self._end(self._quiet)

    @property
    def heard(self) -> bool:
        """Whether there has been speech of the least length."""
        if self._done:
            return True
        return self._start is not None and (self._quiet or self._at) - self._start > self._least

    @property
    def earliest(self) -> int:
        """No span that is not done begins before this sample."""
        return max(0, (self._at if self._start is None else self._start) - _PADDING)

    def spans(self, length: int) -> list[Span]:
        """All spans of a clip that ends after `length` samples, padded by 30 ms where there is room between them."""
        found = list(self._done)
        if self._start is not None and length - self._start > self._least:
            found.append(Span(self._start, length))
        return [_padded(found, place, length) for place in range(len(found))]

    def _end(self, end: int) -> None:
        assert self._start is not None
        if end - self._start > self._least:
            self._done.append(Span(self._start, end))
        self._start = self._quiet = None


def _padded(spans: list[Span], place: int, length: int) -> Span:
    """Two spans that are close share the silence between them."""
    here = spans[place]
    before = here.start - spans[place - 1].end if place else 2 * here.start
    after = spans[place + 1].start - here.end if place + 1 < len(spans) else 2 * (length - here.end)
    return Span(
        here.start - min(_PADDING, before // 2) if place else max(0, here.start - _PADDING),
        here.end + min(_PADDING, after // 2) if place + 1 < len(spans) else min(length, here.end + _PADDING),
    )
