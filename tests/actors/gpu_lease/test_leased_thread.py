from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator

import pytest

from actors.errors import ShuttingDown
from actors.gpu_lease.leased_thread import LeasedThread

PATIENCE_S = 30.0


class Lease:
    """Free until it is closed, and it keeps the order of things."""

    def __init__(self, order: list[str]) -> None:
        self.must_yield = False
        self.closed = False
        self._order = order

    def hold(self) -> None:
        if self.closed:
            raise ShuttingDown("the lease is closed")
        self._order.append("hold")

    def give_way(self) -> None: ...

    def idle(self) -> None:
        self._order.append("idle")


class Engine(LeasedThread):
    """Does a line of callables."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.lease = Lease(self.order)
        self.line: deque[Callable[[], None]] = deque()
        super().__init__("test", self.lease)

    @property
    def waiting(self) -> int:
        return len(self.line)

    def submit(self, work: Callable[[], None]) -> None:
        with self._news:
            self.line.append(work)
            self._news.notify_all()

    def _next(self) -> Callable[[], None] | None:
        return self.line.popleft() if self.line else None

    def _rest(self) -> None:
        self.order.append("rest")

    def _end(self) -> None:
        self.order.append("end")


@pytest.fixture
def engine() -> Iterator[Engine]:
    made = Engine()
    yield made
    made.stop()
    if made.alive:
        made.join()


def test_errands_come_before_all_other_work(engine: Engine) -> None:
    done = threading.Event()
    engine.submit(lambda: engine.order.append("work"))
    engine.submit(done.set)
    errand = engine.hand_in(lambda: engine.order.append("errand"))
    engine.start()
    assert done.wait(PATIENCE_S)
    assert errand.done()
    assert engine.order[:3] == ["hold", "errand", "work"]


def test_a_thread_without_work_rests_and_keeps_no_claim(engine: Engine) -> None:
    engine.start()
    assert engine.hand_in(lambda: 7).result(PATIENCE_S) == 7
    engine.stop()
    engine.join()
    assert engine.order[-2:] == ["end", "idle"]
    assert "rest" not in engine.order or engine.order[engine.order.index("rest") + 1] == "idle"


def test_an_errand_that_fails_is_its_own_matter(engine: Engine) -> None:
    engine.start()

    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        engine.hand_in(fail).result(PATIENCE_S)
    assert engine.hand_in(lambda: "fine").result(PATIENCE_S) == "fine"


def test_an_errand_that_nobody_wants_any_more_is_not_done(engine: Engine) -> None:
    unwanted = engine.hand_in(lambda: engine.order.append("unwanted"))
    assert unwanted.cancel()
    engine.start()
    engine.hand_in(lambda: None).result(PATIENCE_S)
    assert "unwanted" not in engine.order


def test_a_closed_lease_ends_the_thread_and_every_errand(engine: Engine) -> None:
    engine.lease.closed = True
    errands = [engine.hand_in(lambda: None) for _ in range(3)]
    engine.start()
    for errand in [*errands, engine.hand_in(lambda: None)]:
        with pytest.raises(ShuttingDown):
            errand.result(PATIENCE_S)
    engine.join()
    assert not engine.alive
    with pytest.raises(ShuttingDown):
        engine.hand_in(lambda: None).result(PATIENCE_S)
