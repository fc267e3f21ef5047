"""The line of rows that wait for a seat."""

from __future__ import annotations

from actors.generation.messages import Sampling, Submit
from actors.generation.row import Row
from actors.generation.waiting import WaitingLine
from actors.ids import IngressId, RequestId


def row(name: str, ingress: str = "one") -> Row:
    return Row(Submit(RequestId(name), IngressId(ingress), b"", None, Sampling()), [1])


def test_rows_are_seated_in_order_and_no_more_than_there_are_seats() -> None:
    line = WaitingLine(seats=2, places=2)
    for name in "abcd":
        assert not line.full
        line.join(row(name))
    assert line.full
    first, second = line.next(), line.next()
    assert first is not None and second is not None
    assert [first.request.request_id, second.request.request_id] == ["a", "b"]
    assert line.next() is None
    assert (line.live, line.waiting) == (4, 2)
    line.leave(RequestId("a"))
    assert not line.full
    third = line.next()
    assert third is not None and third.request.request_id == "c"


def test_a_waiting_row_that_is_cancelled_leaves_at_once_a_seated_one_when_the_engine_says_so() -> None:
    line = WaitingLine(seats=1, places=5)
    seated, waiting = row("seated"), row("waiting")
    line.join(seated)
    line.join(waiting)
    line.next()
    assert not line.cancel(RequestId("waiting"))
    assert (line.live, line.waiting) == (1, 0)
    assert line.cancel(RequestId("seated"))
    assert seated.cancelled
    assert line.live == 1
    assert line.leave(RequestId("seated")) is seated
    assert line.live == 0
    assert not line.cancel(RequestId("seated")), "a row that has gone is nobody's"
    assert line.leave(RequestId("seated")) is None


def test_rows_are_found_by_their_ingress() -> None:
    line = WaitingLine(seats=1, places=5)
    for name, ingress in (("a", "one"), ("b", "two"), ("c", "one")):
        line.join(row(name, ingress))
    line.next()
    assert line.of(IngressId("one")) == ["a", "c"]
