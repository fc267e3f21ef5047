"""The engine thread with a model that does what a test wants."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pytest

from actors.embedding.encoder import Passes
from actors.embedding.engine import Engine
from actors.embedding.line import Item, Job
from actors.embedding.loading import LoadedEncoder
from actors.embedding.pooling import Floats
from actors.errors import GenerationFailed, StartError, TroupeError
from actors.ids import RequestId
from tests.support.engine import FixedRate

PATIENCE_S = 30.0
POISON, HOLE = 13, 14


class Puppet:
    """A model whose vectors are (length, first token); it chokes on `POISON` and makes NaNs of `HOLE`."""

    cuttable = True

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.closed = 0
        self.between: Callable[[], None] = lambda: None

    def passes(self, rows: Sequence[Sequence[int]], chunk: int) -> Passes:
        self.batches.append([len(row) for row in rows])
        width = max(map(len, rows))
        try:
            for start in range(0, width, chunk):
                yield min(chunk, width - start) * len(rows)
                self.between()
            if any(POISON in row for row in rows):
                raise RuntimeError("poison")
            vectors = np.array([[len(row), row[0]] for row in rows], dtype=np.float32)
            vectors[[HOLE in row for row in rows]] = np.nan
            return vectors
        finally:
            self.closed += 1


class Lease:
    """Always free, and counted."""

    def __init__(self) -> None:
        self.must_yield = False
        self.calls: list[str] = []

    def hold(self) -> None:
        self.calls.append("hold")

    def give_way(self) -> None:
        self.calls.append("give_way")

    def idle(self) -> None:
        self.calls.append("idle")


class Ear:
    """Keeps what the engine says."""

    def __init__(self) -> None:
        self.vectors: dict[tuple[str, int], list[float]] = {}
        self.failures: dict[str, TroupeError] = {}
        self.changed = threading.Condition()

    def computed(self, items: Sequence[Item], vectors: Floats) -> None:
        with self.changed:
            for item, vector in zip(items, vectors, strict=True):
                self.vectors[str(item.job.request_id), item.index] = vector.tolist()
            self.changed.notify_all()

    def failed(self, job: Job, error: TroupeError) -> None:
        with self.changed:
            self.failures[str(job.request_id)] = error
            self.changed.notify_all()

    def wait(self, condition: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(condition, PATIENCE_S)


class Rig:
    def __init__(self, budget: int) -> None:
        self.puppet, self.lease, self.ear = Puppet(), Lease(), Ear()
        self.engine = Engine(self.lease, self.ear, FixedRate(budget))

    def submit(self, name: str, *texts: list[int]) -> Job:
        job = Job(RequestId(name), texts)
        self.engine.submit(job)
        return job


@contextmanager
def running(budget: int = 256) -> Iterator[Rig]:
    rig = Rig(budget)
    rig.engine.start()
    try:
        rig.engine.load(lambda: LoadedEncoder(rig.puppet, 1)).result(PATIENCE_S)
        yield rig
    finally:
        rig.engine.stop()
        rig.engine.join()


def _wait(event: threading.Event) -> None:
    assert event.wait(PATIENCE_S)


def test_every_text_gets_its_own_vector() -> None:
    with running() as rig:
        rig.submit("a", [7, 1], [8, 1, 1], [9])
        rig.ear.wait(lambda: len(rig.ear.vectors) == 3)
        assert rig.ear.vectors == {("a", 0): [2, 7], ("a", 1): [3, 8], ("a", 2): [1, 9]}
        assert (rig.engine.tally.texts, rig.engine.tally.text_tokens) == (3, 6)


def test_a_text_that_breaks_the_model_fails_alone() -> None:
    with running() as rig:
        held = threading.Event()
        rig.puppet.between = lambda: _wait(held)
        rig.submit("first", [1])
        rig.submit("bad", [POISON, 1])
        rig.submit("good", [5, 1])
        held.set()
        rig.ear.wait(lambda: len(rig.ear.vectors) == 2 and len(rig.ear.failures) == 1)
        assert isinstance(rig.ear.failures["bad"], GenerationFailed)
        assert rig.ear.vectors["good", 0] == [2, 5]
        assert [2, 2] in rig.puppet.batches, "they were in one batch"
        rig.submit("later", [6])
        rig.ear.wait(lambda: ("later", 0) in rig.ear.vectors)


def test_numbers_that_are_not_finite_are_no_vector() -> None:
    with running() as rig:
        rig.submit("holes", [HOLE])
        rig.submit("whole", [3])
        rig.ear.wait(lambda: len(rig.ear.vectors) == 1 and len(rig.ear.failures) == 1)
        assert "not finite" in rig.ear.failures["holes"].message
        assert ("whole", 0) in rig.ear.vectors


def test_the_gpu_is_lent_between_two_passes_of_one_long_text() -> None:
    with running(budget=64) as rig:
        rig.lease.must_yield = True
        rig.submit("long", [1] * 200)
        rig.ear.wait(lambda: len(rig.ear.vectors) == 1)
        assert rig.lease.calls.count("give_way") == 4
        assert rig.engine.tally.passes == 4


def test_a_batch_nobody_waits_for_stops_after_its_pass() -> None:
    with running(budget=64) as rig:
        job: Job

        def leave() -> None:
            job.ended = True
            rig.engine.cancel(job)
            rig.puppet.between = lambda: None

        rig.puppet.between = leave
        job = Job(RequestId("left"), [[1] * 6400, [1] * 6400])
        rig.engine.submit(job)
        rig.submit("next", [2])
        rig.ear.wait(lambda: len(rig.ear.vectors) == 1)
        assert list(rig.ear.vectors) == [("next", 0)]
        assert rig.engine.tally.passes < 6
        assert rig.puppet.closed == len(rig.puppet.batches)
        assert rig.engine.waiting == 0


def test_an_engine_without_work_gives_its_claim_up() -> None:
    with running() as rig:
        rig.submit("a", [1])
        rig.ear.wait(lambda: len(rig.ear.vectors) == 1)
    assert rig.lease.calls[-1] == "idle"


def test_a_failed_load_can_be_tried_again() -> None:
    with running() as rig:

        def fail() -> LoadedEncoder:
            raise StartError("no such weights")

        with pytest.raises(StartError, match="no such weights"):
            rig.engine.load(fail).result(PATIENCE_S)
        rig.engine.load(lambda: LoadedEncoder(rig.puppet, 1)).result(PATIENCE_S)
        rig.submit("a", [1])
        rig.ear.wait(lambda: len(rig.ear.vectors) == 1)
