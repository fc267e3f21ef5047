"""One open session at work: its state, its clip, its spool, and the task that transcribes behind its client."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np

from actors.errors import InvalidRequest, TroupeError
from actors.transcription import listening
from actors.transcription.clip import Clip
from actors.transcription.listener import Listener, Prepared
from actors.transcription.listening import Voice
from actors.transcription.messages import Failure, Transcript
from actors.transcription.session import Session
from actors.transcription.session_messages import AppendAudio, Finished, OpenSession, Receipt
from actors.transcription.speech_spans import RATE
from actors.transcription.spool import Spool
from actors.transcription.vad import VoiceStream
from actors.transcription.wav import Samples, bounded

log = logging.getLogger("troupe.transcription.sessions")

NEWS = RATE // 2
"""Samples that make another look at a window worth while that is not complete."""


class LiveSession:
    """All methods but `take`, `replay` and `end` belong to the event loop; those three block, one of them at a time.

    Args:
        name: its id.
        opened: how it was opened.
        prepared: what the transcriber made of that.
        session: its state.
        clip: what it feeds.
        spool: keeps its audio.
        voice: tells speech; None without a gate.
        listener: transcribes.
        now: the clock.
    """

    def __init__(
        self,
        name: str,
        opened: OpenSession,
        prepared: Prepared,
        session: Session,
        clip: Clip,
        spool: Spool,
        voice: VoiceStream | None,
        listener: Listener,
        now: Callable[[], float],
    ) -> None:
        self.name = name
        self.session = session
        self.spool = spool
        self.order = asyncio.Lock()
        """Held by whoever changes the session."""
        self.waiting = 0
        """Calls that wait for their turn, or have it."""
        self.failure: Failure | None = None
        """Why it cannot go on."""
        self.dropped = False
        """Nobody will find it here any more."""
        self.kept = ExitStack()
        """Closed when it is dropped."""
        self._opened = opened
        self._prepared = prepared
        self._clip = clip
        self._voice = voice
        self._listener = listener
        self._now = now
        self._stirred = asyncio.Event()
        self._news = asyncio.Event()
        self._partial: str | None = None
        self._looked_at = 0
        self._transcribe_s = 0.0
        self._work: asyncio.Task[None] | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of audio that it keeps in RAM."""
        return self.session.nbytes + self._clip.nbytes

    def start(self) -> None:
        """Transcribe what is due, from now on."""
        self._work = asyncio.ensure_future(self._run())
        self._stirred.set()

    def take(self, message: AppendAudio) -> None:
        """Hear a chunk and keep it.

        Raises:
            RequestError: the chunk is no sound, too much, or too late. Nothing has changed then.
            OSError: the disk does not take it. Nothing has changed then.
        """
        if message.chunk_id == self.spool.last_chunk:
            self.session.touch(self._now())
            return
        self.session.check()
        samples = _samples(message.data) if message.raw else self._listener.decode(message.data)
        self.session.check(len(samples))
        self.spool.append(message.chunk_id, samples)
        self._hear(samples)

    def replay(self) -> None:
        """Hear what another replica has kept."""
        for samples in self.spool.read():
            self._hear(samples)

    def end(self) -> None:
        """The audio is over. Raises `Conflict` if it was before."""
        self.session.check()
        rest = self._voice.finish().tolist() if self._voice is not None else ()
        self.session.finish(rest, self._now())

    def stir(self) -> None:
        """Something has changed."""
        self._stirred.set()

    async def ended(self) -> None:
        """Return when everything is transcribed, or has failed. Cancelling stops only the waiting."""
        if self._work is not None:
            await asyncio.wait({self._work})

    async def cancel(self) -> None:
        """Transcribe no more. Returns when nothing of the session is under way."""
        if self._work is not None:
            self._work.cancel()
            await asyncio.wait({self._work})

    def drop(self) -> None:
        """It is no longer kept here, which those who follow it are to notice."""
        self.dropped = True
        self.kept.close()
        self._tell()

    def receipt(self) -> Receipt:
        start_s = self.session.start / RATE
        segments = tuple(listening.moved(segment.plain(), start_s) for segment in list(self._clip.segments))
        return Receipt(self.session.samples, self.session.speech, segments, self._partial)

    async def news(self, segments: int, partial: str | None, patience_s: float) -> None:
        """Return when there is more to say than this, or the session is over, or the patience is."""
        try:
            async with asyncio.timeout(patience_s):
                while not self.dropped and self.failure is None and self._known(segments, partial):
                    await self._news.wait()
        except TimeoutError:
            return

    def finished(self, finish_s: float) -> Finished:
        """What it came to; once it has ended. `finish_s` has passed since the end of its audio."""
        session, clip, prepared = self.session, self._clip, self._prepared
        transcript = Transcript(
            model=prepared.model_id,
            task=prepared.options.task,
            language=prepared.options.language if session.speech is False else clip.language,
            duration=session.duration_s,
            text=clip.text,
            segments=self.receipt().segments,
            vocabulary=None if prepared.vocabulary is None else prepared.vocabulary.plain(),
            voice=None if session.speech is None else Voice(tuple(session.spans), session.samples).plain(),
            load_ms=prepared.load_ms,
            transcribe_ms=round(self._transcribe_s * 1000, 3),
            total_ms=round(finish_s * 1000, 3),
        )
        return Finished(transcript, self._opened.verbose)

    def _hear(self, samples: Samples) -> None:
        probabilities = self._voice.feed(samples).tolist() if self._voice is not None else ()
        self.session.hear(samples, probabilities, self._now())

    def _known(self, segments: int, partial: str | None) -> bool:
        # A replica that took the session over has fewer segments at first: nothing that the client lacks.
        return len(self._clip.segments) <= segments and self._partial in (None, partial)

    async def _run(self) -> None:
        try:
            while self.session.state != "finished":
                await self._stirred.wait()
                self._stirred.clear()
                ending = self.session.state == "finishing"
                while self.session.due:
                    await self._timed(self._listener.advance(self._clip, self._advanced))
                if ending:
                    self.session.finished()
                elif self._worth_a_look:
                    self._looked_at = self._clip.samples
                    self._partial = (await self._timed(self._listener.peek(self._clip))).strip()
                    self._tell()
                    self._stirred.set()  # more may have come meanwhile
        except Exception as error:
            if not isinstance(error, TroupeError):
                log.exception("%s failed", self.name)
            known = isinstance(error, TroupeError)
            words = error.message if known else "the transcription failed"
            self.failure = Failure(type(error).__name__ if known else "GenerationFailed", words)
            self.session.fail()
        finally:
            self._tell()

    def _advanced(self) -> None:
        self._partial = None if self._partial is None else ""
        self._tell()

    @property
    def _worth_a_look(self) -> bool:
        if not self._opened.partials or self.session.state != "open" or self.session.speech is False:
            return False
        return self._clip.samples - self._looked_at >= NEWS

    async def _timed(self, work: Any) -> Any:
        started = self._now()
        try:
            return await work
        finally:
            self._transcribe_s += self._now() - started

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


def _samples(data: bytes) -> Samples:
    if len(data) % 4:
        raise InvalidRequest(f"a chunk of float32 samples has a multiple of 4 bytes, not {len(data)}")
    samples = np.frombuffer(data, dtype="<f4").astype(np.float32)
    if not np.isfinite(samples).all():
        raise InvalidRequest("the chunk holds samples that are no numbers")
    return bounded(samples)
