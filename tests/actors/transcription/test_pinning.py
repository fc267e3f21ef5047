from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors import ids
from actors.transcription.pinning import Standing, moved, pinned, replica_of, roomiest

names = st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=4, max_size=10)


@given(names, st.sets(names, max_size=5))
def test_a_session_goes_to_the_replica_that_opened_it_whoever_else_there_is(own: str, others: set[str]) -> None:
    session = ids.audio_session_id(own)
    assert replica_of(session) == own
    assert pinned(session, [*others, own]) == own


@given(names, st.sets(names, min_size=1, max_size=5))
def test_a_session_of_a_dead_replica_always_goes_to_the_same_one(own: str, others: set[str]) -> None:
    session = ids.audio_session_id(own)
    heir = pinned(session, sorted(others - {own} or {"heir"}))
    assert pinned(session, sorted(others - {own} or {"heir"}, reverse=True)) == heir


def test_the_sessions_of_a_dead_replica_are_spread_over_the_others() -> None:
    heirs = {pinned(ids.audio_session_id("dead"), ["one", "two", "three"]) for _ in range(200)}
    assert heirs == {"one", "two", "three"}


@given(names, names)
def test_a_session_that_has_moved_goes_to_its_owner(own: str, owner: str) -> None:
    assert pinned(moved(ids.audio_session_id(own), owner), sorted({own, owner, "other"})) == owner


@pytest.mark.parametrize("session", ["", "x", "a-b", ".", "-."])
def test_a_name_that_is_none_goes_somewhere(session: str) -> None:
    assert pinned(session, ["one", "two"]) in ("one", "two")


def test_new_sessions_fill_the_oldest_replica_first() -> None:
    old, new = Standing("old", 3, started=1), Standing("new", 0, started=2)
    assert roomiest([new, old], target=4) == "old"
    assert roomiest([new, old], target=3) == "new"


def test_where_all_are_full_the_one_with_the_fewest_sessions_gets_the_next() -> None:
    full = [Standing("one", 9, 1), Standing("two", 8, 2), Standing("three", 8, 3)]
    assert roomiest(full, target=4) == "two"
