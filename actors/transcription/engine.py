"""The transcriber's engine: one thread that owns the weights and transcribes window after window under the GPU lease.

    take the next clip, hold the lease, transcribe one window of it, put it behind the others, lend the GPU

A window is one slice of the lease. Everything that touches an array happens here, loading included.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Protocol

import mlx.core as mx

from actors.errors import GenerationFailed, ShuttingDown, TroupeError
from actors.gpu_lease.leased_thread import LeasedThread
from actors.gpu_lease.ports import Lease
from actors.transcription.clip import Clip
from actors.transcription.decoder import WhisperDecoder
from actors.transcription.take import Segment

log = logging.getLogger("troupe.transcription.engine")

Work = Callable[[], WhisperDecoder | None]


class Job:
    """A clip on its way through the engine."""

    def __init__(self, clip: Clip) -> None:
        self.clip = clip
        self.ended = False
        """Nobody waits for it any more."""


class EnginePort(Protocol):
    """What the engine tells the event loop. Called from the engine thread; must not block."""

    def advanced(self, job: Job, segments: list[Segment]) -> None:
        """Another window of a clip is transcribed."""
        ...

    def rested(self, job: Job) -> None:
        """A clip has no window to transcribe, until it is submitted again."""
        ...

    def failed(self, job: Job, error: TroupeError) -> None:
        """One clip cannot be transcribed."""
        ...


class Engine(LeasedThread):
    """See the module. All other methods may be called from any thread.

    Args:
        lease: permission to run MLX.
        port: the event loop's ear.
    """

    def __init__(self, lease: Lease, port: EnginePort) -> None:
        super().__init__("transcription", lease)
        self.windows = 0
        """Transcribed since start."""
        self._port = port
        self._line: deque[Job] = deque()
        self._decoder: WhisperDecoder | None = None

    @property
    def waiting(self) -> int:
        """Clips in line."""
        with self._news:
            return len(self._line)

    def replace(self, work: Work) -> Future[None]:
        """Have `work` make the decoder, in the engine thread and under the lease, before any clip; None drops it."""

        def make() -> None:
            self._decoder = None
            mx.clear_cache()
            self._decoder = work()

        return self.hand_in(make)

    def submit(self, job: Job) -> None:
        """Put a clip in line; a decoder must have been made. One that is there already stays where it is."""
        with self._news:
            if job not in self._line:
                self._line.append(job)
                self._news.notify_all()

    # The engine thread.

    def _next(self) -> Callable[[], None] | None:
        return partial(self._transcribe, self._line.popleft()) if self._line else None

    def _rest(self) -> None:
        mx.synchronize()

    def _end(self) -> None:
        self._decoder = None

    def _transcribe(self, job: Job) -> None:
        if job.ended:
            return
        try:
            self._window(job)
        except ShuttingDown:
            raise
        except Exception as error:
            log.exception("a clip of %.1f s cannot be transcribed", job.clip.frames / 100)
            self._port.failed(job, GenerationFailed(f"the speech model failed: {type(error).__name__}"))
            return
        finally:
            mx.synchronize()
        if self._lease.must_yield:
            self._lease.give_way()

    def _window(self, job: Job) -> None:
        assert self._decoder is not None, "a clip came before the weights"
        if job.clip.waiting:
            self._lease.hold()
            segments = job.clip.advance(self._decoder, lambda: self._goes_on(job))
            self.windows += 1
            if job.ended or not self._running:
                return
            self._port.advanced(job, segments)
        if job.clip.waiting:
            self.submit(job)
        else:
            self._port.rested(job)

    def _goes_on(self, job: Job) -> bool:
        """Between two tokens: lend the GPU to whom it is due, so that a window of many tries holds nobody up."""
        if self._lease.must_yield:
            mx.synchronize()
            self._lease.give_way()
        return self._running and not job.ended
