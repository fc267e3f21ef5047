"""The engine's thread: windows by turns, and the GPU lent within them."""

from __future__ import annotations

import threading
from typing import Any, cast

from actors.errors import TroupeError
from actors.transcription.engine import Engine, Job
from actors.transcription.search import GoOn
from actors.transcription.take import Segment
from tests.support.waiting import wait_until


class Lease:
    """Somebody waits as soon as it is held."""

    def __init__(self) -> None:
        self.must_yield = False
        self.lent = 0

    def hold(self) -> None:
        self.must_yield = True

    def give_way(self) -> None:
        self.must_yield = False
        self.lent += 1

    def idle(self) -> None:
        self.must_yield = False


class Clip:
    """One window that asks between its tokens whether to go on."""

    def __init__(self, lease: Lease) -> None:
        self.waiting = True
        self.frames = 3000
        self.answers: list[bool] = []
        self._lease = lease

    def advance(self, decoder: Any, go_on: GoOn) -> list[Segment]:
        for _ in range(3):
            self.answers.append(go_on())
            self._lease.must_yield = True
        self.waiting = False
        return []


class Port:
    def __init__(self) -> None:
        self.rest = threading.Event()
        self.errors: list[TroupeError] = []

    def advanced(self, job: Job, segments: list[Segment]) -> None:
        assert not segments

    def rested(self, job: Job) -> None:
        self.rest.set()

    def failed(self, job: Job, error: TroupeError) -> None:
        self.errors.append(error)


def test_the_gpu_is_lent_between_two_tokens_of_a_window() -> None:
    lease, port = Lease(), Port()
    engine, clip = Engine(lease, port), Clip(lease)
    engine.start()
    try:
        engine.replace(lambda: cast(Any, object())).result(30)
        engine.submit(Job(cast(Any, clip)))
        wait_until(port.rest.is_set, "the window is done", 30)
        assert clip.answers == [True] * 3
        assert lease.lent >= 3
        assert not port.errors
    finally:
        engine.stop()
        engine.join()
