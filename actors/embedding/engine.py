"""The embedder's engine: one thread that owns the weights and computes batch after batch under the GPU lease.

    take the next batch, hold the lease, compute it pass by pass, lend the GPU between two passes

Everything that touches an array happens here, loading included.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import mlx.core as mx
import numpy as np

from actors.embedding.encoder import Encoder
from actors.embedding.line import Item, Job, Line
from actors.embedding.loading import LoadedEncoder
from actors.embedding.pooling import Floats
from actors.errors import GenerationFailed, ShuttingDown, TroupeError
from actors.generation.policy import PrefillRate
from actors.gpu_lease.leased_thread import LeasedThread
from actors.gpu_lease.ports import Lease

log = logging.getLogger("troupe.embedding.engine")

LEAST_CHUNK = 64
"""Tokens of a text that a pass computes at least, where texts are cut."""


class EnginePort(Protocol):
    """What the engine tells the event loop. Called from the engine thread; must not block."""

    def computed(self, items: Sequence[Item], vectors: Floats) -> None:
        """Vectors of one batch, one a row, finite and not yet of length 1."""
        ...

    def failed(self, job: Job, error: TroupeError) -> None:
        """One request cannot be answered."""
        ...


@dataclass(slots=True)
class Tally:
    """What the engine has done since start."""

    texts: int = 0
    text_tokens: int = 0
    passes: int = 0


class Engine(LeasedThread):
    """See the module. `submit`, `cancel` and `load` may be called from any thread.

    Args:
        lease: permission to run MLX.
        port: the event loop's ear.
        rate: budget of tokens a pass.
    """

    def __init__(self, lease: Lease, port: EnginePort, rate: PrefillRate) -> None:
        super().__init__("embedding", lease)
        self.tally = Tally()
        self.rate = rate
        self._port = port
        self._line = Line()
        self._encoder: Encoder | None = None

    @property
    def waiting(self) -> int:
        """Texts in line."""
        with self._news:
            return len(self._line)

    def load(self, work: Callable[[], LoadedEncoder]) -> Future[LoadedEncoder]:
        """Have `work` make the encoder, in the engine thread and under the lease."""

        def make() -> LoadedEncoder:
            loaded = work()
            self._encoder = loaded.encoder
            return loaded

        return self.hand_in(make)

    def submit(self, job: Job) -> None:
        """Put a request in line. An encoder must have been loaded."""
        with self._news:
            self._line.join(job)
            self._news.notify_all()

    def cancel(self, job: Job) -> None:
        """Forget what waits of a request that has `ended`; a batch of nothing else stops after its pass."""
        with self._news:
            self._line.leave(job)

    # The engine thread.

    def _next(self) -> Callable[[], None] | None:
        # The others of a pass wait for it as running answers wait for a prompt's chunk.
        batch = self._line.next(self.rate.budget(1))
        return partial(self._compute, batch) if batch else None

    def _rest(self) -> None:
        """An idle embedder keeps its weights and nothing else."""
        mx.synchronize()
        mx.clear_cache()

    def _end(self) -> None:
        self._encoder = None

    def _compute(self, batch: list[Item]) -> None:
        """A batch that fails is computed text by text: the culprit fails alone."""
        try:
            self._embed(batch)
        except ShuttingDown:
            raise
        except Exception as error:
            if len(batch) == 1:
                log.exception("a text of %s cannot be embedded", batch[0].job.request_id)
                self._port.failed(batch[0].job, GenerationFailed(f"the embedding model failed: {type(error).__name__}"))
                return
            log.warning("a batch of %d texts failed and is computed one by one: %s", len(batch), error)
            for item in batch:
                self._compute([item])

    def _embed(self, batch: Sequence[Item]) -> None:
        assert self._encoder is not None, "a request came before the weights"
        chunk = max(LEAST_CHUNK, self.rate.budget(1) // len(batch))
        passes = self._encoder.passes([item.tokens for item in batch], chunk)
        try:
            while any(not item.job.ended for item in batch) and self._running:
                self._lease.hold()
                started = time.monotonic()
                self.rate.observe(next(passes), time.monotonic() - started)
                self.tally.passes += 1
                if self._lease.must_yield:
                    self._lease.give_way()
        except StopIteration as end:
            self._deliver(batch, end.value)
        finally:
            passes.close()

    def _deliver(self, batch: Sequence[Item], vectors: Floats) -> None:
        finite: list[bool] = [bool(np.isfinite(vector).all()) for vector in vectors]
        for item, sound in zip(batch, finite, strict=True):
            if not sound:
                self._port.failed(item.job, GenerationFailed("the embedding model gave numbers that are not finite"))
        self.tally.texts += len(batch)
        self.tally.text_tokens += sum(len(item.tokens) for item in batch)
        self._port.computed([item for item, sound in zip(batch, finite, strict=True) if sound], vectors[finite])
