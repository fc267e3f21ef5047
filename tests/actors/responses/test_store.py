from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.clock import FakeClock
from actors.ids import RequestId
from actors.responses.messages import Keep, Kept, Turn
from actors.responses.store import OVERHEAD, StoredResponses

UNIT = 1000
"""Size of a turn in these tests."""


def turn(name: str) -> Turn:
    response = name.encode()
    return Turn(b"x" * (UNIT - OVERHEAD - len(response)), response)


def message(name: str, previous: str | None = None, *items: str) -> Keep:
    return Keep(RequestId(name), None if previous is None else RequestId(previous), turn(name), items)


def store(units: int = 10, ttl_s: float = 60.0, clock: FakeClock | None = None) -> StoredResponses:
    return StoredResponses(units * UNIT, ttl_s, clock or FakeClock())


def names(found: tuple[Turn, ...] | None) -> list[str] | None:
    return None if found is None else [turn.response.decode() for turn in found]


def test_a_response_is_found_and_brings_its_conversation_in_order() -> None:
    stored = store()
    assert stored.keep(message("a")) is Kept.STORED
    assert stored.keep(message("b", "a")) is Kept.STORED
    assert stored.keep(message("c", "b")) is Kept.STORED
    assert stored.find(RequestId("b")) == b"b"
    assert names(stored.thread(RequestId("c"))) == ["a", "b", "c"]
    assert names(stored.thread(RequestId("b"))) == ["a", "b"]


def test_two_continuations_share_their_past() -> None:
    stored = store()
    for name, previous in (("a", None), ("b", "a"), ("c", "a")):
        stored.keep(message(name, previous))
    assert names(stored.thread(RequestId("b"))) == ["a", "b"]
    assert names(stored.thread(RequestId("c"))) == ["a", "c"]
    assert stored.statistics(0).size == 3 * UNIT


def test_the_least_recently_used_goes_first() -> None:
    stored = store(units=2)
    stored.keep(message("a"))
    stored.keep(message("b"))
    stored.find(RequestId("a"))
    stored.keep(message("c"))
    assert [stored.find(RequestId(name)) for name in "abc"] == [b"a", None, b"c"]
    assert stored.statistics(0).evictions == 1


def test_a_dropped_response_stays_the_past_of_those_that_continue_it() -> None:
    stored = store()
    stored.keep(message("a"))
    stored.keep(message("b", "a"))
    assert stored.forget(RequestId("a"))
    assert stored.find(RequestId("a")) is None
    assert names(stored.thread(RequestId("b"))) == ["a", "b"]
    assert stored.statistics(0).size == 2 * UNIT
    stored.forget(RequestId("b"))
    assert (stored.statistics(0).entries, stored.statistics(0).size) == (0, 0)


def test_a_response_lives_as_long_as_it_was_told_to_and_not_longer() -> None:
    clock = FakeClock()
    stored = store(ttl_s=60, clock=clock)
    stored.keep(message("a"))
    clock.advance(30)
    stored.keep(message("b", "a"))
    clock.advance(29.9)
    assert stored.find(RequestId("a")) == b"a"
    clock.advance(0.1)
    assert stored.find(RequestId("a")) is None
    assert names(stored.thread(RequestId("b"))) == ["a", "b"]
    clock.advance(30)
    statistics = stored.statistics(0)
    assert (statistics.entries, statistics.size, statistics.expirations) == (0, 0, 2)


def test_a_conversation_larger_than_the_store_is_refused_and_costs_nobody_his_place() -> None:
    stored = store(units=2)
    stored.keep(message("a"))
    stored.keep(message("b", "a"))
    assert stored.keep(message("c", "b")) is Kept.TOO_LARGE
    assert names(stored.thread(RequestId("b"))) == ["a", "b"]
    assert StoredResponses(0, 60, FakeClock()).keep(message("a")) is Kept.TOO_LARGE


def test_what_continues_an_unknown_response_is_not_stored() -> None:
    stored = store()
    assert stored.keep(message("b", "a")) is Kept.ORPHANED
    assert stored.find(RequestId("b")) is None


def test_keeping_twice_changes_nothing() -> None:
    stored = store()
    stored.keep(message("a"))
    assert stored.keep(message("a")) is Kept.STORED
    assert stored.statistics(0).size == UNIT
    assert stored.check() == []


def test_a_response_is_found_by_its_items() -> None:
    stored = store()
    stored.keep(message("a", None, "i", "j"))
    stored.keep(message("b", None, "k"))
    assert stored.holding(["j", "k", "i", "x"]) == (b"a", b"b")
    assert (stored.statistics(0).hits, stored.statistics(0).misses) == (2, 1)


def test_items_go_with_their_response() -> None:
    stored = store(units=2)
    stored.keep(message("a", None, "i"))
    stored.keep(message("b", None, "j"))
    assert stored.holding(["i"]) == (b"a",)
    stored.keep(message("c", None, "k"))
    assert stored.holding(["i", "j", "k"]) == (b"a", b"c")
    stored.forget(RequestId("a"))
    assert stored.holding(["i"]) == ()


def test_items_of_a_response_that_only_serves_as_a_past_are_not_found() -> None:
    stored = store()
    stored.keep(message("a", None, "i"))
    stored.keep(message("b", "a", "j"))
    stored.forget(RequestId("a"))
    assert stored.holding(["i", "j"]) == (b"b",)


@pytest.mark.parametrize("known", [True, False])
def test_questions_are_counted(known: bool) -> None:
    stored = store()
    stored.keep(message("a"))
    stored.thread(RequestId("a" if known else "b"))
    stored.find(RequestId("a" if known else "b"))
    assert (stored.statistics(0).hits, stored.statistics(0).misses) == ((2, 0) if known else (0, 2))


NAMES = st.sampled_from("abcdef")
STEPS = st.one_of(
    st.tuples(st.just("keep"), NAMES, st.none() | NAMES),
    st.tuples(st.just("forget"), NAMES, st.none()),
    st.tuples(st.just("thread"), NAMES, st.none()),
    st.tuples(st.just("holding"), NAMES, st.none()),
    st.tuples(st.just("wait"), NAMES, st.none()),
)


@given(st.lists(STEPS, max_size=60), st.integers(0, 5))
def test_whatever_happens_the_books_are_right(steps: list[tuple[str, str, str | None]], units: int) -> None:
    clock = FakeClock()
    stored = store(units, ttl_s=3, clock=clock)
    for step, name, previous in steps:
        if step == "keep":
            stored.keep(message(name, previous, f"item {previous}", f"item {name}"))
        elif step == "forget":
            stored.forget(RequestId(name))
        elif step == "thread":
            found = names(stored.thread(RequestId(name)))
            assert found is None or found[-1] == name
        elif step == "holding":
            assert all(stored.find(RequestId(held.decode())) for held in stored.holding([f"item {name}"]))
        else:
            clock.advance(1)
        assert stored.check() == []
