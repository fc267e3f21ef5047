"""The protocol of live sessions, whole. It is part of the transcriber's.

    open_session(OpenSession)        -> Opened | Failure
    append_audio(AppendAudio)        -> Receipt | Elsewhere | Failure         what is due is transcribed behind it
    follow_session(FollowSession)    -> Receipt | Elsewhere | Failure         parks until there is news
    finish_session(FinishSession)    -> Finished | Elsewhere | Failure        when everything is transcribed
    discard_session(DiscardSession)  -> Discarded | Elsewhere | Failure

A session belongs to the replica that opened it, and to another one of the same machine when that one is gone: whoever
is asked about it takes it over from the disk. `Elsewhere` names the replica that has it. In the transcript of a session
`transcribe_ms` is all that was spent on its windows, `total_ms` what passed since the audio was over.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from actors.transcription.messages import Failure, Transcript, VoiceGate
from actors.transcription.options import TranscriptionOptions
from actors.transcription.vocabulary import VocabularyReport


@dataclass(frozen=True, slots=True)
class OpenSession:
    """Begin a session."""

    options: TranscriptionOptions
    """How it is transcribed."""
    voice: VoiceGate | None = None
    """How speech is told from silence; None transcribes whatever comes."""
    partials: bool = False
    """Whether the window that is not complete is transcribed too, again and again, while nothing else is to do."""
    verbose: bool = False
    """Whether the client wants segments in the end; kept for whoever answers it then."""


@dataclass(frozen=True, slots=True)
class Opened:
    """It has begun."""

    session_id: str
    """Its name."""
    model_id: str
    """Who listens."""
    vocabulary: VocabularyReport | None
    """What became of the terms to expect; None without any."""


@dataclass(frozen=True, slots=True)
class AppendAudio:
    """What was heard next. The same chunk sent twice in a row counts once."""

    session_id: str
    """Whose."""
    chunk_id: bytes
    """16 bytes that name the chunk."""
    data: bytes
    """Sound."""
    raw: bool
    """Whether `data` are little-endian float32 samples, 16,000 a second, of one channel; else it is a whole file."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """How far a session is."""

    samples: int
    """Received, 16,000 a second."""
    speech: bool | None
    """Whether there has been speech; None where nobody listens for it."""
    segments: tuple[dict[str, Any], ...]
    """Every segment that is final, with openai-whisper's fields."""
    partial: str | None
    """What the window that is not complete might say; None where that was not asked for, or is not known yet."""


@dataclass(frozen=True, slots=True)
class FollowSession:
    """Ask for news."""

    session_id: str
    """Of whom."""
    segments: int
    """Segments that the asker knows."""
    partial: str | None
    """As the asker knows it."""
    patience_s: float
    """How long to wait for news; then the answer holds none."""


@dataclass(frozen=True, slots=True)
class FinishSession:
    """The audio is over."""

    session_id: str
    """Whose."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A session is over."""

    transcript: Transcript
    """What it came to."""
    verbose: bool
    """As in `OpenSession`."""


@dataclass(frozen=True, slots=True)
class DiscardSession:
    """Forget it, and its audio."""

    session_id: str
    """Which."""


@dataclass(frozen=True, slots=True)
class Discarded:
    """It is forgotten."""


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Another replica has the session."""

    owner: str
    """Which; empty when that cannot be told just now."""


@dataclass(frozen=True, slots=True)
class SessionStatistics:
    """Live sessions of a replica."""

    open_sessions: int
    """Served now."""
    opened_sessions: int
    """Since start."""
    resumed_sessions: int
    """Since start, taken over from a replica that is gone."""
    finished_sessions: int
    """Since start."""
    discarded_sessions: int
    """Since start, by their clients."""
    expired_sessions: int
    """Since start, because nobody was heard of; those of replicas that are gone among them."""
    failed_sessions: int
    """Since start, ended by an error of the server's."""
    received_s: float
    """Seconds of audio since start."""


__all__ = [
    "AppendAudio",
    "DiscardSession",
    "Discarded",
    "Elsewhere",
    "Failure",
    "FinishSession",
    "Finished",
    "FollowSession",
    "OpenSession",
    "Opened",
    "Receipt",
    "SessionStatistics",
]
