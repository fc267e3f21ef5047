"""A live session: audio comes in chunks, windows become due, the clip ends or is forgotten. Pure.

What it is told: samples with their probabilities of speech, and the time. What it tells: whether a window is due.
Transcribing is somebody else's business (`Clip.advance`), and so is keeping the audio (spool.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import numpy as np

from actors.errors import Conflict, Expired, InvalidRequest
from actors.transcription.messages import VoiceGate
from actors.transcription.speech_spans import MARGIN, RATE, Span, SpeechSpans
from actors.transcription.wav import Samples

SLICE = 10 * RATE
"""Samples that a clip is fed at once: whoever looks at it in between waits for 10 ms."""

State = Literal["open", "finishing", "finished", "expired", "failed"]


class GrowingSpans(SpeechSpans):
    """Spans of a clip that is not over."""

    @property
    def sure_end(self) -> int | None:
        """A sample up to which there is speech, whatever comes; None while there may be none."""
        if self._start is not None:
            # A pause that has begun may turn out to be the end, and then it was its beginning.
            end = self._at if self._quiet is None else self._quiet
            if end - self._start > self._least:
                return end
        return self._done[-1].end if self._done else None


class GrowingClip(Protocol):
    """What a session needs of a clip."""

    @property
    def samples(self) -> int: ...

    @property
    def waiting(self) -> bool: ...

    def feed(self, samples: Samples) -> None: ...

    def finish(self) -> None: ...


class Session:
    """One session. Not for several threads at once, `due` apart.

    Args:
        clip: takes what is to be transcribed.
        gate: holds everything back until there is speech; None transcribes whatever comes.
        most_s: seconds of audio that are allowed.
        idle_s: seconds without a word from the client after which it expires.
        now: monotonic seconds.
    """

    def __init__(self, clip: GrowingClip, gate: VoiceGate | None, most_s: float, idle_s: float, now: float) -> None:
        self.state: State = "open"
        self.samples = 0
        """Samples received, 16,000 a second."""
        self.start = 0
        """The sample at which the clip begins: what is before it was trimmed away."""
        self._clip = clip
        self._gate = gate
        self._spans = GrowingSpans(gate.threshold, gate.min_speech_ms) if gate is not None else None
        self._most_s = most_s
        self._idle_s = idle_s
        self._heard_of = now
        self._held: list[Samples] = []
        """Audio that the clip has not got."""
        self._begun = gate is None or not gate.trim
        """Whether it is known where the clip begins."""

    @property
    def nbytes(self) -> int:
        """Bytes of audio that it holds back."""
        return sum(samples.nbytes for samples in list(self._held))

    @property
    def duration_s(self) -> float:
        """Seconds received."""
        return self.samples / RATE

    @property
    def speech(self) -> bool | None:
        """Whether there has been speech; None where nobody listens for it."""
        if self._spans is None or self.state in ("open", "expired"):
            return self._spans.heard if self._spans is not None else None
        return bool(self.spans)

    @property
    def spans(self) -> Sequence[Span]:
        """Where speech was, so far."""
        return self._spans.spans(self.samples) if self._spans is not None else ()

    @property
    def due(self) -> bool:
        """Whether a window can be transcribed now."""
        return self.speech is not False and self.state in ("open", "finishing") and self._clip.waiting

    def touch(self, now: float) -> None:
        """The client has shown that it is there."""
        self._heard_of = now

    def check(self, more: int = 0) -> None:
        """Whether it takes `more` samples.

        Raises:
            Conflict: it is finished, or about to be.
            Expired: it was idle for too long.
            InvalidRequest: it would become too long.
        """
        if self.state == "expired":
            raise Expired(idle_words(self._idle_s))
        if self.state != "open":
            raise Conflict("the session is finished; no more audio can be added")
        if self.samples + more > self._most_s * RATE:
            raise InvalidRequest(f"the session would become longer than the {self._most_s:g} s that are allowed")

    def hear(self, samples: Samples, probabilities: Sequence[float], now: float) -> None:
        """Append a chunk that `check` let pass. `probabilities` are those of the frames that it completed."""
        self.touch(now)
        self.samples += len(samples)
        self._listen(probabilities)
        self._held.append(samples)
        self._release(self._sure())

    def finish(self, probabilities: Sequence[float], now: float) -> None:
        """The audio is over; what is due then is its rest. `probabilities` are those of what was left of a frame."""
        self.touch(now)
        self._listen(probabilities)
        self._release(self._end())
        self._held.clear()
        self._clip.finish()
        self.state = "finishing"  # the last thing, for whoever takes it to mean that nothing more becomes due

    def finished(self) -> None:
        """Everything is transcribed."""
        self.state = "finished"

    def fail(self) -> None:
        """A window could not be transcribed; there is no use in going on."""
        self.state = "failed"

    def expire(self, now: float) -> bool:
        """Whether nobody has been heard of for too long; the session is over then. One that is finishing goes on."""
        if self.state not in ("open", "failed") or now - self._heard_of <= self._idle_s:
            return False
        self.state = "expired"
        return True

    def _listen(self, probabilities: Sequence[float]) -> None:
        if self._spans is not None:
            for probability in probabilities:
                self._spans.feed(probability)

    def _sure(self) -> int:
        """Up to which sample the audio belongs to the clip, whatever comes."""
        if self._gate is None or self._spans is None or not self._gate.trim:
            return self.samples
        end = self._spans.sure_end
        if end is None:
            self._skip(self._spans.earliest)
            return 0
        self._begin(self.spans[0])
        return min(self.samples, end + MARGIN)

    def _end(self) -> int:
        """Where the clip ends, now that all is known."""
        if self._gate is None or not self._gate.trim:
            return self.samples
        spans = self.spans
        if not spans:
            return 0
        self._begin(spans[0])
        return min(self.samples, spans[-1].end + MARGIN)

    def _begin(self, first: Span) -> None:
        """The clip begins shortly before the speech."""
        if not self._begun:
            self._skip(first.start)
            self._begun = True

    def _skip(self, speech: int) -> None:
        """Drop what lies well before a sample at which speech begins, if it does."""
        start = max(0, speech - MARGIN)
        held = np.concatenate(self._held) if self._held else np.zeros(0, dtype=np.float32)
        self._held, self.start = [held[start - self.start :].copy()], start

    def _release(self, end: int) -> None:
        """Give the clip what lies before `end`."""
        count = end - self.start - self._clip.samples
        if count <= 0:
            return
        held = self._held[0] if len(self._held) == 1 else np.concatenate(self._held)
        for first in range(0, count, SLICE):
            self._clip.feed(held[first : min(first + SLICE, count)])
        self._held = [held[count:].copy()] if count < len(held) else []  # a view would keep all of it


def idle_words(idle_s: float) -> str:
    """What a client is told of its expired session."""
    return f"the session expired: it was idle for more than {idle_s:g} s"
