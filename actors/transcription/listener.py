"""What live sessions need of the transcriber that hosts them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from actors.transcription.budget import AudioBudget
from actors.transcription.clip import Clip
from actors.transcription.options import TranscriptionOptions
from actors.transcription.vad import VoiceDetector
from actors.transcription.vocabulary import VocabularyReport
from actors.transcription.wav import Samples


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a transcriber makes of a session's options."""

    model_id: str
    """Who listens."""
    mels: int
    """Bands of the model's spectrograms."""
    options: TranscriptionOptions
    """The options, checked, with the language as a code."""
    vocabulary: VocabularyReport | None
    """What becomes of the vocabulary; None without one."""
    load_ms: float
    """How long the weights took to load; 0 where they were there."""


class Listener(Protocol):
    """One Whisper model of one replica."""

    @property
    def budget(self) -> AudioBudget:
        """RAM for sound that waits."""
        ...

    async def prepare(self, options: TranscriptionOptions) -> Prepared:
        """Check the options and load the weights.

        Raises:
            InvalidRequest: the model cannot do that.
            ModelUnavailable: there is no model, or no room for it.
            ShuttingDown: the server stops.
        """
        ...

    def voice(self) -> VoiceDetector:
        """The voice detector, fetched and loaded where it is not. Blocks. Raises `ModelUnavailable`."""
        ...

    def decode(self, data: bytes) -> Samples:
        """The sound of a whole file. Blocks. Raises `UndecodableAudio`."""
        ...

    async def advance(self, clip: Clip, advanced: Callable[[], None]) -> None:
        """Transcribe every window of a clip that is complete; `advanced` is called after each. Cancelling ends it soon.

        Raises:
            TroupeError: it cannot be done.
        """
        ...

    async def peek(self, clip: Clip) -> str:
        """What the window that is not complete might say. As `advance` otherwise."""
        ...
