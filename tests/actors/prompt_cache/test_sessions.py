from __future__ import annotations

from actors.ids import EntryId, Incarnation
from actors.prompt_cache.residents import Place
from actors.prompt_cache.sessions import Sessions

HERE = Place("model", "", Incarnation("one"))
THERE = Place("model", "salt", Incarnation("one"))
A, B, C = EntryId("a"), EntryId("b"), EntryId("c")


def referenced(sessions: Sessions) -> str:
    assert sessions.check() == []
    return "".join(sorted(sessions.entries()))


def test_a_session_refers_to_its_latest_entry_alone() -> None:
    sessions = Sessions()
    sessions.refer(HERE, "s", A)
    sessions.refer(HERE, "s", B)
    assert (sessions.referenced(A), sessions.referenced(B)) == (False, True)


def test_a_closed_session_refers_to_nothing_anywhere() -> None:
    sessions = Sessions()
    sessions.refer(HERE, "s", A)
    sessions.refer(THERE, "s", B)
    sessions.refer(HERE, "t", C)
    sessions.close("s")
    sessions.close("unknown")
    assert referenced(sessions) == "c"
    assert sessions.latest(HERE, "s") is None
    assert sessions.latest(HERE, "t") == C


def test_each_place_has_its_own_latest_entry() -> None:
    sessions = Sessions()
    sessions.refer(HERE, "s", A)
    sessions.refer(THERE, "s", B)
    assert referenced(sessions) == "ab"


def test_an_entry_stays_referenced_until_its_last_session_leaves() -> None:
    sessions = Sessions()
    sessions.refer(HERE, "s", A)
    sessions.refer(HERE, "t", A)
    sessions.refer(HERE, "s", B)
    assert referenced(sessions) == "ab"
    sessions.refer(HERE, "t", B)
    assert referenced(sessions) == "b"


def test_adopting_never_replaces_what_a_session_has() -> None:
    sessions = Sessions()
    sessions.adopt(HERE, "s", A)
    sessions.adopt(HERE, "s", B)
    assert referenced(sessions) == "a"


def test_moved_sessions_follow_and_forgotten_entries_leave_none() -> None:
    sessions = Sessions()
    for name, entry in (("s", A), ("t", B), ("u", C)):
        sessions.refer(HERE, name, entry)
    sessions.move(A, B)
    assert referenced(sessions) == "bc"
    sessions.forget(B)
    assert (referenced(sessions), len(sessions)) == ("c", 1)


def test_the_sessions_seen_longest_ago_are_forgotten_beyond_the_limit() -> None:
    sessions = Sessions(limit=2)
    sessions.refer(HERE, "s", A)
    sessions.refer(HERE, "t", B)
    sessions.adopt(HERE, "s", C)
    sessions.refer(HERE, "u", C)
    assert (referenced(sessions), len(sessions)) == ("ac", 2)


def test_check_sees_a_disagreement() -> None:
    sessions = Sessions()
    sessions.refer(HERE, "s", A)
    sessions._entries[(HERE, "s")] = B
    assert sessions.check() != []
