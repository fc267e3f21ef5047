"""What a route may ask of the transcriber. `actors/ingress/transcription_link.py` implements it over Ray."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Protocol

from actors.errors import ModelUnavailable
from actors.transcription.messages import Progress, Transcribe, Transcript, TranscriptionStatistics, Unloaded


class TranscriptionClient(Protocol):
    """One ingress replica's way to the transcriber. Every method may raise `EngineUnavailable`."""

    def transcribe(self, request: Transcribe) -> AsyncGenerator[Progress | Transcript, None]:
        """Progress window by window, then the transcript. Closing it gives the request up.

        Raises:
            UndecodableAudio: the bytes are no audio, or too much of it.
            InvalidRequest: the model cannot do what is asked.
            ModelUnavailable: there is no Whisper model, or it cannot be loaded.
            QueueFull: too many requests wait.
            ShuttingDown: the server stops.
        """
        ...

    async def unload(self) -> Unloaded:
        """Page the weights out, if nobody uses them."""
        ...

    async def statistics(self) -> TranscriptionStatistics:
        """The transcriber's state now."""
        ...


class NoTranscription:
    """Implements `TranscriptionClient` where transcription is switched off."""

    async def transcribe(self, request: Transcribe) -> AsyncGenerator[Progress | Transcript, None]:
        raise self._refusal()
        yield  # what makes it a generator

    async def unload(self) -> Unloaded:
        raise self._refusal()

    async def statistics(self) -> TranscriptionStatistics:
        raise self._refusal()

    def _refusal(self) -> ModelUnavailable:
        return ModelUnavailable("transcription is switched off (transcription.model is none)")
