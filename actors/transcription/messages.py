"""The protocol of the transcriber, whole.

transcribe(Transcribe)  -> stream of Progress, then one Transcript or Failure; closing the stream gives it up
unload()                -> Unloaded                  page the weights out, if nobody uses them
statistics()            -> TranscriptionStatistics
drain()                 -> None                      refuse new requests, return when the last one has ended
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from actors.ids import Incarnation, RequestId
from actors.transcription.options import TranscriptionOptions


@dataclass(frozen=True, slots=True)
class VoiceGate:
    """Listen for speech first, and transcribe only where there is some."""

    threshold: float = 0.5
    """Probability from which on it is speech."""
    min_speech_ms: float = 250.0
    """Shorter sounds are none."""
    trim: bool = False
    """Whether silence before and behind the speech is cut off, up to half a second."""


@dataclass(frozen=True, slots=True)
class Transcribe:
    """One request."""

    request_id: RequestId
    """Its name, unique."""
    audio: bytes = field(repr=False)
    """A whole file of any kind."""
    options: TranscriptionOptions
    """How it is transcribed."""
    voice: VoiceGate | None
    """Whether speech is listened for first."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Another window is transcribed."""

    segments: tuple[dict[str, Any], ...]
    """What it gave, in openai-whisper's fields."""
    done: int
    """Spectrogram frames behind us, 100 a second."""
    total: int
    """Frames in all."""


@dataclass(frozen=True, slots=True)
class Transcript:
    """The whole text of a clip."""

    model: str
    """Name of the model."""
    task: str
    """`transcribe` or `translate`."""
    language: str | None
    """Code of what is spoken; None where nobody spoke."""
    duration: float
    """Seconds of sound."""
    text: str
    segments: tuple[dict[str, Any], ...]
    """In openai-whisper's fields."""
    vocabulary: dict[str, Any] | None
    """What became of the terms; None where there were none."""
    voice: dict[str, Any] | None
    """Whether there was speech and when; None where nobody listened for it."""
    load_ms: float
    """Time to load the weights; 0 where they were there."""
    transcribe_ms: float
    """Time from then on."""
    total_ms: float
    """Time since the request came, decoding of the audio included."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there is no text; rebuilt by `errors.by_name`."""

    error: str
    """Class name in actors/errors.py."""
    message: str
    """What the client is told."""


@dataclass(frozen=True, slots=True)
class TranscriptionStatistics:
    """State of the transcriber."""

    incarnation: Incarnation
    """Which start of which replica tells it; empty where several are added up."""
    resident: bool
    """Whether the weights are in memory."""
    weight_bytes: int
    """Bytes they take; 0 while they are not loaded."""
    loads: int
    """How often they were loaded since start."""
    unloads: int
    """How often they were given up since start."""
    requests: int
    """Requests since start."""
    last_load_ms: float
    """Time of the last load."""
    idle_unload_sec: float | None
    """Seconds without work after which they are given up; None keeps them."""
    open_requests: int
    """Requests that are not answered."""
    waiting_clips: int
    """Clips that have a window to transcribe."""
    waiting_bytes: int
    """Bytes of sound that is not transcribed, in clips and sessions."""
    finished_requests: int
    """Since start, answered with a text."""
    cancelled_requests: int
    """Since start, given up because nobody waited any more."""
    failed_requests: int
    """Since start, ended in an error."""
    windows: int
    """Windows transcribed since start."""
    audio_s: float
    """Seconds of sound received since start."""
    lease_wait_s: float
    """Seconds the engine waited for the GPU lease."""
    lease_hold_s: float
    """Seconds it computed under it."""

    def block(self) -> dict[str, Any]:
        """The part that is shown as `transcription`."""
        return {
            "resident": self.resident,
            "loads": self.loads,
            "unloads": self.unloads,
            "requests": self.requests,
            "last_load_ms": self.last_load_ms,
            "idle_unload_sec": self.idle_unload_sec,
        }


@dataclass(frozen=True, slots=True)
class Unloaded:
    """What came of `unload`."""

    unloaded: bool
    """Whether there were weights, and nobody used them."""
    statistics: TranscriptionStatistics
    """The state afterwards."""
