"""What a route may ask about live sessions. `actors/ingress/session_link.py` implements it over Ray."""

from __future__ import annotations

from typing import Protocol

from actors.errors import ModelUnavailable
from actors.transcription.session_messages import Finished, Opened, OpenSession, Receipt


class SessionClient(Protocol):
    """One ingress replica's way to the replicas of the transcriber.

    Every method about a session may raise `NotFound`, `Conflict` (it is finished), `Expired`, `GenerationFailed` (it
    has failed), `ModelUnavailable`, `ShuttingDown`, and `EngineUnavailable` when no replica answers.
    """

    async def open(self, request: OpenSession) -> Opened:
        """Begin a session. Cancelling may leave one behind, which expires.

        Raises:
            InvalidRequest: the model cannot do what is asked.
            QueueFull: too many sessions are open.
        """
        ...

    async def append(self, session_id: str, data: bytes, raw: bool) -> Receipt:
        """Add a chunk: float32 samples at 16 kHz where it is `raw`, else a whole file. It is safe when this returns.

        Raises:
            InvalidRequest: it is no multiple of 4 bytes, or the session would become too long.
            UndecodableAudio: the file is no audio.
            StoreUnavailable: the disk does not take it.
            QueueFull: too many calls about this session are under way.
        """
        ...

    async def follow(self, session_id: str, segments: int, partial: str | None, patience_s: float) -> Receipt:
        """Wait for more than this, `patience_s` at most."""
        ...

    async def finish(self, session_id: str) -> Finished:
        """Transcribe the rest and end the session. Cancelling does not stop that."""
        ...

    async def discard(self, session_id: str) -> None:
        """Forget a session and its audio."""
        ...


class NoSessions:
    """Implements `SessionClient` where transcription is switched off."""

    async def open(self, request: OpenSession) -> Opened:
        raise self._refusal()

    async def append(self, session_id: str, data: bytes, raw: bool) -> Receipt:
        raise self._refusal()

    async def follow(self, session_id: str, segments: int, partial: str | None, patience_s: float) -> Receipt:
        raise self._refusal()

    async def finish(self, session_id: str) -> Finished:
        raise self._refusal()

    async def discard(self, session_id: str) -> None:
        raise self._refusal()

    def _refusal(self) -> ModelUnavailable:
        return ModelUnavailable("transcription is switched off (transcription.model is none)")
