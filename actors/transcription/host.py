"""A transcriber that hosts live sessions: what a Serve replica runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from actors.errors import ShuttingDown, StartError
from actors.models.folders import cache_folder
from actors.models.whisper_card import WhisperCard
from actors.settings import Settings
from actors.transcription import listening
from actors.transcription.actor import Transcriber
from actors.transcription.audio import decode
from actors.transcription.clip import Clip
from actors.transcription.decoder import WhisperDecoder
from actors.transcription.listener import Prepared
from actors.transcription.options import TranscriptionOptions
from actors.transcription.search import GoOn
from actors.transcription.session_messages import (
    AppendAudio,
    Discarded,
    DiscardSession,
    Elsewhere,
    Failure,
    Finished,
    FinishSession,
    FollowSession,
    Opened,
    OpenSession,
    Receipt,
)
from actors.transcription.sessions import Sessions
from actors.transcription.spool import SpoolFolder
from actors.transcription.vad import VoiceDetector
from actors.transcription.vocabulary import VocabularyReport, opening, plainly
from actors.transcription.wav import Samples


class SessionHost(Transcriber):
    """Implements `Listener` by the engine that transcribes whole clips too. All methods on one event loop.

    Args:
        settings: the whole configuration.
        lease: returns the handle of this machine's GPU lease.
        replica: name of this replica, which goes into the ids of its sessions.
        card: the model; None finds out with the first request.
        eager: load the weights at the start.
    """

    def __init__(
        self,
        settings: Settings,
        lease: Callable[[], Any],
        replica: str,
        card: WhisperCard | None = None,
        eager: bool = False,
    ) -> None:
        super().__init__(settings, lease, card, eager)
        self._sessions_settings = settings.audio_sessions
        self._replica = replica
        self.started = time.time()
        """Seconds since the epoch."""

    async def start(self) -> None:
        """As the transcriber's. Raises `StartError` too when audio cannot be kept."""
        await super().start()
        self.sessions = Sessions(self._sessions_settings, self, await asyncio.to_thread(self._folder), self._replica)
        self.sessions.start()

    async def close(self) -> None:
        """As the transcriber's; other replicas go on with the sessions."""
        await self.sessions.close()
        await super().close()

    # Live sessions; `Sessions` says what becomes of each call.

    async def open_session(self, message: OpenSession) -> Opened | Failure:
        return await self.sessions.open_session(message)

    async def append_audio(self, message: AppendAudio) -> Receipt | Elsewhere | Failure:
        return await self.sessions.append_audio(message)

    async def follow_session(self, message: FollowSession) -> Receipt | Elsewhere | Failure:
        return await self.sessions.follow_session(message)

    async def finish_session(self, message: FinishSession) -> Finished | Elsewhere | Failure:
        return await self.sessions.finish_session(message)

    async def discard_session(self, message: DiscardSession) -> Discarded | Elsewhere | Failure:
        return await self.sessions.discard_session(message)

    # What sessions ask for.

    async def prepare(self, options: TranscriptionOptions) -> Prepared:
        if self._open.closed:
            raise ShuttingDown("the server is shutting down")
        card = await self.weights.find()
        options = await self._checked(options, card)
        with self.weights.used(), self._open.counted():
            load_ms = await self.weights.ready()
        report = await self._work(lambda: _report(card, options))
        return Prepared(card.model_id, card.sizes["n_mels"], options, report, load_ms)

    def voice(self) -> VoiceDetector:
        return listening.detector()

    def decode(self, data: bytes) -> Samples:
        return decode(data, self._sessions_settings.max_s, self._settings.decode_timeout_s)

    async def advance(self, clip: Clip, advanced: Callable[[], None]) -> None:
        with self.weights.used(), self._open.counted():
            await self.weights.ready()
            async for _ in self._windows(clip, 0.0):
                advanced()

    async def peek(self, clip: Clip) -> str:
        glimpse = _Glimpse(clip)
        await self.advance(cast(Clip, glimpse), lambda: None)
        return glimpse.text

    def _folder(self) -> SpoolFolder:
        named = self._sessions_settings.spool_dir
        path = Path(named).expanduser() if named is not None else cache_folder() / "sessions"
        try:
            return SpoolFolder(path, self._replica)
        except OSError as error:
            raise StartError(f"the audio of sessions cannot be kept in {path}: {error.strerror or error}") from None


class _Glimpse:
    """A clip in the engine's eyes whose one window is a look at another clip's unfinished one."""

    def __init__(self, clip: Clip) -> None:
        self.text = ""
        self._clip = clip
        self._looked = False

    @property
    def waiting(self) -> bool:
        return not self._looked

    @property
    def frames(self) -> int:
        return self._clip.frames

    @property
    def done_frames(self) -> int:
        return self._clip.done_frames

    def advance(self, decoder: WhisperDecoder, go_on: GoOn) -> list[Any]:
        self._looked = True
        self.text = self._clip.peek(decoder, go_on)
        return []


def _report(card: WhisperCard, options: TranscriptionOptions) -> VocabularyReport | None:
    """What becomes of the vocabulary. Blocks while the tokenizer is read for the first time."""
    if not options.vocabulary:
        return None
    from mlx_whisper.tokenizer import get_tokenizer

    tokenizer: Any = get_tokenizer(card.multilingual)
    budget = card.sizes["n_text_ctx"] // 2 - 1
    return opening(options.prompt, options.vocabulary, plainly(tokenizer), budget)[1]
