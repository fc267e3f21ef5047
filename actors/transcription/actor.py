"""The transcriber: owns a Whisper model, loads it when it is needed, and turns audio into text under the GPU lease.

The event loop takes messages and answers; worker threads decode audio, listen for speech and make spectrograms; the
engine thread (engine.py) does everything that touches an array.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, aclosing
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, TypeVar

from actors import ids
from actors.errors import GenerationFailed, QueueFull, ShuttingDown, TroupeError
from actors.gpu_lease.holder import LeaseHolder
from actors.models.whisper_card import WhisperCard
from actors.open_requests import OpenRequests
from actors.settings import Settings
from actors.transcription import listening
from actors.transcription.audio import RATE, blocks
from actors.transcription.budget import AudioBudget
from actors.transcription.clip import Clip
from actors.transcription.engine import Engine, Job
from actors.transcription.listening import Voice
from actors.transcription.messages import (
    Failure,
    Progress,
    Transcribe,
    Transcript,
    TranscriptionStatistics,
    Unloaded,
)
from actors.transcription.options import TranscriptionOptions
from actors.transcription.take import Segment
from actors.transcription.wav import Samples
from actors.transcription.weights import Weights
from actors.transcription.wishes import checked

log = logging.getLogger("troupe.transcription")
T = TypeVar("T")

_Event = list[Segment] | TroupeError | None
"""A window's segments, the reason of a failure, or the end of what there was to do."""


@dataclass(frozen=True, slots=True)
class _Take:
    """A clip that is decoded."""

    card: WhisperCard
    clip: Clip | None
    """None where nobody speaks."""
    voice: Voice | None
    samples: int
    offset: float
    """Seconds that were trimmed off its beginning."""


class Transcriber:
    """One Whisper model in one process. All methods are called on one event loop.

    Args:
        settings: the whole configuration.
        lease: returns the handle of this machine's GPU lease.
        card: the model; None finds out with the first request.
        eager: load the weights at the start.
    """

    def __init__(
        self, settings: Settings, lease: Callable[[], Any], card: WhisperCard | None = None, eager: bool = False
    ) -> None:
        self._settings = settings.transcription
        self._lease_factory = lease
        self._card = card
        self._eager = eager
        self.budget = AudioBudget(self._settings.audio_bytes, self._settings.threads)
        """For the sound that waits."""
        self._heard: dict[Job, asyncio.Queue[_Event]] = {}
        self._open = OpenRequests()
        self._incarnation = ids.incarnation()
        self._requests = self._finished = self._cancelled = self._failed = 0
        self._samples = 0

    async def start(self) -> None:
        """Start the threads. Raises `ModelUnavailable` when the weights are loaded now and cannot be."""
        self._loop = asyncio.get_running_loop()
        self._workers = ThreadPoolExecutor(self._settings.threads, thread_name_prefix="audio")
        self._lease = LeaseHolder(
            self._lease_factory, f"transcription:{ids.incarnation()}", "transcription", self._loop
        )
        self._engine = Engine(self._lease, self)
        self._engine.start()
        self.weights = Weights(self._settings, self._card, self._engine, self._lease, lambda: len(self._open) > 0)
        if self._eager:
            await self.weights.ready()

    def check_health(self) -> None:
        """Raises when the engine thread has died, so that the deployment is restarted."""
        if not self._engine.alive:
            raise RuntimeError("the engine thread has ended")

    async def transcribe(self, request: Transcribe) -> AsyncGenerator[Progress | Transcript | Failure, None]:
        """Progress window by window, then the transcript, or why there is none. Closing it gives the request up."""
        self._requests += 1
        refusal = self._refusal()
        if refusal is not None:
            yield refusal
            return
        answered = False
        with self.weights.used(), self._open.counted():
            try:
                async with aclosing(self._events(request)) as events:
                    async for event in events:
                        answered = isinstance(event, Transcript)
                        yield event
                self._finished += 1
            except TroupeError as error:
                answered = True
                self._failed += 1
                yield Failure(type(error).__name__, error.message)
            finally:
                self._cancelled += not answered

    async def unload(self) -> Unloaded:
        """Page the weights out now, unless somebody uses them."""
        unloaded = await self.weights.unload()
        return Unloaded(unloaded, await self.statistics())

    async def statistics(self) -> TranscriptionStatistics:
        weights, settings = self.weights, self._settings
        return TranscriptionStatistics(
            incarnation=self._incarnation,
            resident=weights.size > 0,
            weight_bytes=weights.size,
            loads=weights.tally.loads,
            unloads=weights.tally.unloads,
            requests=self._requests,
            last_load_ms=weights.tally.last_load_ms,
            idle_unload_sec=None if settings.resident else settings.idle_unload_s,
            open_requests=len(self._open),
            waiting_clips=self._engine.waiting,
            waiting_bytes=self.budget.used,
            finished_requests=self._finished,
            cancelled_requests=self._cancelled,
            failed_requests=self._failed,
            windows=self._engine.windows,
            audio_s=self._samples / RATE,
            lease_wait_s=self._lease.wait_s,
            lease_hold_s=self._lease.hold_s,
        )

    async def drain(self) -> None:
        """Refuse new requests and return when the last one has ended. Cancelling stops only the waiting."""
        await self._open.drain()

    async def close(self) -> None:
        """End the threads and give the lease back. Open requests are answered `ShuttingDown`."""
        self._open.closed = True
        for events in self._heard.values():
            events.put_nowait(ShuttingDown("the server is shutting down"))
        self.weights.close()
        self._engine.stop()
        self._lease.close()
        await asyncio.to_thread(self._engine.join)
        await self._lease.closed()
        self._workers.shutdown(wait=False, cancel_futures=True)

    # What the engine says; called from its thread.

    def advanced(self, job: Job, segments: list[Segment]) -> None:
        self._loop.call_soon_threadsafe(self._hear, job, segments)

    def rested(self, job: Job) -> None:
        self._loop.call_soon_threadsafe(self._hear, job, None)

    def failed(self, job: Job, error: TroupeError) -> None:
        self._loop.call_soon_threadsafe(self._hear, job, error)

    # The event loop's part.

    def _refusal(self) -> Failure | None:
        if self._open.closed:
            return Failure(ShuttingDown.__name__, "the server is shutting down")
        if len(self._open) >= self._settings.queue:
            return Failure(QueueFull.__name__, f"{self._settings.queue} transcriptions wait or run; try again later")
        return None

    async def _events(self, request: Transcribe) -> AsyncGenerator[Progress | Transcript, None]:
        came = time.monotonic()
        with ExitStack() as kept:
            async with self.budget.decoding():
                take = await self._take(request, kept)
            card, clip, voice = take.card, take.clip, take.voice
            if clip is None:
                yield _silence(take, request.options, came)
                return
            load_ms = await self.weights.ready()
            loaded = time.monotonic()
            async with aclosing(self._windows(clip, take.offset)) as windows:
                async for progress in windows:
                    yield progress
        now = time.monotonic()
        yield Transcript(
            model=card.model_id,
            task=clip.options.task,
            language=clip.language,
            duration=take.samples / RATE,
            text=clip.text,
            segments=tuple(listening.moved(segment.plain(), take.offset) for segment in clip.segments),
            vocabulary=None if clip.vocabulary is None else clip.vocabulary.plain(),
            voice=None if voice is None else voice.plain(),
            load_ms=load_ms,
            transcribe_ms=_ms(loaded, now),
            total_ms=_ms(came, now),
        )

    async def _take(self, request: Transcribe, kept: ExitStack) -> _Take:
        """Decode a clip as far as the model is not needed: once to listen for speech, once for the spectrogram.

        What that takes counts in the budget until `kept` is closed, which ends it too.
        """
        over = threading.Event()
        kept.callback(over.set)
        voice = None
        if (gate := request.voice) is not None:
            voice = await self._work(lambda: listening.listen(self._blocks(request, over), gate))
            self._samples += voice.samples
        card = await self.weights.find()
        if voice is not None and not voice.spans:
            return _Take(card, None, voice, voice.samples, 0.0)
        clip = Clip(card.sizes["n_mels"], await self._checked(request.options, card))
        kept.enter_context(self.budget.counted(clip))
        span = voice.trimmed if voice is not None and gate is not None and gate.trim else None
        samples = await self._work(lambda: clip.fill(listening.within(self._blocks(request, over), span)))
        if voice is None:
            self._samples += samples
        return _Take(card, clip, voice, samples if voice is None else voice.samples, span.start / RATE if span else 0.0)

    def _blocks(self, request: Transcribe, over: threading.Event) -> Iterator[Samples]:
        """The clip as long as somebody waits for it."""
        found = blocks(request.audio, self._settings.max_duration_s, self._settings.decode_timeout_s)
        return takewhile(lambda _: not over.is_set(), found)

    async def _windows(self, clip: Clip, offset: float) -> AsyncGenerator[Progress, None]:
        """Have a clip transcribed as far as it goes."""
        job, events = Job(clip), asyncio.Queue[_Event]()
        self._heard[job] = events
        try:
            self._engine.submit(job)
            while (event := await events.get()) is not None:
                if isinstance(event, TroupeError):
                    raise event
                segments = tuple(listening.moved(segment.plain(), offset) for segment in event)
                yield Progress(segments, clip.done_frames, clip.frames)
        finally:
            job.ended = True
            del self._heard[job]

    async def _checked(self, options: TranscriptionOptions, card: WhisperCard) -> TranscriptionOptions:
        """With the language as a code. Raises `InvalidRequest` for what the model cannot do."""
        return await self._work(lambda: checked(options, card))

    async def _work(self, work: Callable[[], T]) -> T:
        """Do something in a worker thread. Cancelling does not wait for it."""
        try:
            return await self._loop.run_in_executor(self._workers, work)
        except TroupeError:
            raise
        except Exception as error:
            log.exception("a clip cannot be prepared")
            raise GenerationFailed(f"the audio cannot be prepared: {type(error).__name__}") from None

    def _hear(self, job: Job, event: _Event) -> None:
        self.budget.changed()
        if (events := self._heard.get(job)) is not None:
            events.put_nowait(event)


def _silence(take: _Take, options: TranscriptionOptions, came: float) -> Transcript:
    """What is said of a clip in which nobody speaks; no weights are needed for that."""
    assert take.voice is not None
    spent = _ms(came, time.monotonic())
    return Transcript(
        model=take.card.model_id,
        task=options.task,
        language=options.language,
        duration=take.samples / RATE,
        text="",
        segments=(),
        vocabulary=None,
        voice=take.voice.plain(),
        load_ms=0.0,
        transcribe_ms=spent,
        total_ms=spent,
    )


def _ms(start: float, end: float) -> float:
    return round((end - start) * 1000, 3)
