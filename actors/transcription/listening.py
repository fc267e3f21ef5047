"""What is done to a clip before Whisper hears it: when somebody speaks in it. Blocks; worker threads only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from actors.errors import ModelUnavailable, StartError
from actors.models import silero
from actors.transcription.messages import VoiceGate
from actors.transcription.speech_spans import MARGIN, Span, SpeechSpans
from actors.transcription.vad import VoiceDetector, VoiceStream
from actors.transcription.wav import Samples


@dataclass(frozen=True, slots=True)
class Voice:
    """When somebody speaks in a clip."""

    spans: tuple[Span, ...]
    samples: int
    """Samples of the whole clip."""

    def plain(self) -> dict[str, Any]:
        """As it is shown."""
        return {"speech": bool(self.spans), "segments": [span.seconds for span in self.spans]}

    @property
    def trimmed(self) -> Span:
        """From half a second before the first word to half a second behind the last."""
        return Span(max(0, self.spans[0].start - MARGIN), min(self.samples, self.spans[-1].end + MARGIN))


@cache
def detector() -> VoiceDetector:
    """The one of this process; its model is fetched when it is not here. Raises `ModelUnavailable`."""
    try:
        return VoiceDetector(silero.ensure(progress=False))
    except StartError as error:
        raise ModelUnavailable(f"there is no voice detector: {error.message}") from None


def listen(blocks: Iterable[Samples], gate: VoiceGate) -> Voice:
    """When somebody speaks in a whole clip."""
    stream, spans, samples = VoiceStream(detector()), SpeechSpans(gate.threshold, gate.min_speech_ms), 0
    for block in blocks:
        samples += len(block)
        for probability in stream.feed(block):
            spans.feed(float(probability))
    for probability in stream.finish():
        spans.feed(float(probability))
    return Voice(tuple(spans.spans(samples)), samples)


def within(blocks: Iterable[Samples], span: Span | None) -> Iterator[Samples]:
    """What of a clip lies in a span of it; all of it without one."""
    if span is None:
        yield from blocks
        return
    at = 0
    for block in blocks:
        piece = block[max(0, span.start - at) : max(0, span.end - at)]
        if len(piece):
            yield piece
        at += len(block)


def moved(segment: dict[str, Any], by_s: float) -> dict[str, Any]:
    """A segment of a trimmed clip, in the times of the whole one."""
    if not by_s:
        return segment
    found = {**segment, "start": segment["start"] + by_s, "end": segment["end"] + by_s}
    found["seek"] = segment["seek"] + round(by_s * 100)
    if "words" in segment:
        words = segment["words"]
        found["words"] = [
            {**word, "start": round(word["start"] + by_s, 2), "end": round(word["end"] + by_s, 2)} for word in words
        ]
    return found
