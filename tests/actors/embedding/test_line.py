"""Which texts are computed together."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from actors.embedding.line import MOST_ROWS, WASTE, Item, Job, Line
from actors.ids import RequestId


def job(name: str, *lengths: int) -> Job:
    return Job(RequestId(name), [[1] * length for length in lengths])


def shape(items: list[Item]) -> list[tuple[str, int]]:
    return [(str(item.job.request_id), item.index) for item in items]


def line_of(*jobs: Job) -> Line:
    line = Line()
    for one in jobs:
        line.join(one)
    return line


def test_nobody_waits_for_nothing() -> None:
    assert line_of().next(100) == []


def test_texts_of_like_length_go_together_longest_first() -> None:
    line = line_of(job("a", 3, 40, 35, 2))
    assert shape(line.next(1000)) == [("a", 1), ("a", 2)]
    assert shape(line.next(1000)) == [("a", 0), ("a", 3)]
    assert len(line) == 0


def test_a_batch_stays_within_the_budget_with_its_padding() -> None:
    line = line_of(job("a", 10, 10, 10, 10))
    assert len(line.next(39)) == 3


def test_a_text_over_the_budget_goes_alone() -> None:
    line = line_of(job("a", 500, 480))
    assert shape(line.next(64)) == [("a", 0)]


def test_texts_of_others_come_along_when_they_are_no_longer_than_the_leaders() -> None:
    line = line_of(job("a", 20), job("b", 30, 18), job("c", 9))
    assert shape(line.next(1000)) == [("a", 0), ("b", 1)]


def test_requests_take_turns() -> None:
    line = line_of(job("large", *[50] * 100), job("small", 4))
    assert {str(item.job.request_id) for item in line.next(200)} == {"large"}
    assert shape(line.next(200)) == [("small", 0)]


def test_a_request_that_left_is_not_computed() -> None:
    gone = job("gone", 5, 5)
    line = line_of(gone, job("b", 5))
    line.leave(gone)
    line.leave(gone)
    assert shape(line.next(1000)) == [("b", 0)]
    assert len(line) == 0


@given(
    st.lists(st.lists(st.integers(1, 300), min_size=1, max_size=40), min_size=1, max_size=6),
    st.integers(16, 2000),
)
def test_every_text_is_computed_once_without_much_padding(lengths: list[list[int]], budget: int) -> None:
    line = line_of(*[job(str(number), *one) for number, one in enumerate(lengths)])
    seen: list[tuple[str, int]] = []
    while batch := line.next(budget):
        widths = [len(item.tokens) for item in batch]
        assert len(batch) == 1 or max(widths) * len(batch) <= budget
        assert max(widths) <= WASTE * min(widths)
        assert len(batch) <= MOST_ROWS
        seen += shape(batch)
    assert sorted(seen) == sorted(
        (str(number), place) for number, one in enumerate(lengths) for place in range(len(one))
    )
