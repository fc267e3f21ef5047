"""The transcriber's engine: one thread that owns the weights and transcribes window after window under the GPU lease.

    while running: do what was asked for (load, unload), else take the next clip, hold the lease, transcribe one window
                   of it, put it behind the others, lend the GPU

A window is one slice of the lease. MLX streams belong to threads, so everything that touches an array happens here.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol

import mlx.core as mx

from actors.errors import GenerationFailed, ShuttingDown, TroupeError
from actors.generation.ports import Lease
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


class Engine:
    """See the module. All other methods may be called from any thread.

    Args:
        lease: permission to run MLX.
        port: the event loop's ear.
    """

    def __init__(self, lease: Lease, port: EnginePort) -> None:
        self.windows = 0
        """Transcribed since start."""
        self._lease = lease
        self._port = port
        self._line: deque[Job] = deque()
        self._work: deque[tuple[Work, Future[None]]] = deque()
        self._news = threading.Condition()
        self._decoder: WhisperDecoder | None = None
        self._running = True
        self._thread = threading.Thread(target=self._run, name="transcription", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread after its window; whatever waits gets nothing more. May be repeated."""
        with self._news:
            self._running = False
            self._news.notify_all()

    def join(self) -> None:
        """Block until the thread has ended."""
        self._thread.join()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def waiting(self) -> int:
        """Clips in line."""
        with self._news:
            return len(self._line)

    def replace(self, work: Work) -> Future[None]:
        """Have `work` make the decoder, in the engine thread and under the lease, before any clip; None drops it."""
        future: Future[None] = Future()
        with self._news:
            if not self._running:
                future.set_exception(ShuttingDown("the server is shutting down"))
                return future
            self._work.append((work, future))
            self._news.notify_all()
        return future

    def submit(self, job: Job) -> None:
        """Put a clip in line; a decoder must have been made. One that is there already stays where it is."""
        with self._news:
            if job not in self._line:
                self._line.append(job)
                self._news.notify_all()

    # The engine thread.

    def _run(self) -> None:
        try:
            while self._running:
                self._turn()
        except ShuttingDown:
            log.debug("the lease is closed")
        finally:
            self._decoder = None
            self._lease.idle()
            with self._news:
                self._running = False
                left, self._work = self._work, deque()
            for _, future in left:
                if future.set_running_or_notify_cancel():
                    future.set_exception(ShuttingDown("the server is shutting down"))

    def _turn(self) -> None:
        with self._news:
            work = self._work.popleft() if self._work else None
            job = self._line.popleft() if work is None and self._line else None
        if work is not None:
            self._replace(*work)
        elif job is not None:
            self._transcribe(job)
        else:
            mx.synchronize()
            self._lease.idle()
            with self._news:
                self._news.wait_for(lambda: not self._running or bool(self._work) or bool(self._line))

    def _replace(self, work: Work, future: Future[None]) -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            self._lease.hold()
            self._decoder = None
            mx.clear_cache()
            self._decoder = work()
        except BaseException as error:
            future.set_exception(error)
            if isinstance(error, ShuttingDown):
                raise
            return
        future.set_result(None)

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
            segments = job.clip.advance(self._decoder, lambda: self._running and not job.ended)
            self.windows += 1
            if job.ended or not self._running:
                return
            self._port.advanced(job, segments)
        if job.clip.waiting:
            self.submit(job)
        else:
            self._port.rested(job)
