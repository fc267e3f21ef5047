"""The index within its budget: who makes room, and in which order."""

from __future__ import annotations

from tests.actors.prompt_cache.harness import IDLE_S, ONE, TWO, Harness, entry


def test_the_least_recently_used_entry_makes_room() -> None:
    cache = Harness(max_bytes=30)
    for token in (1, 2, 3):
        cache.publish(entry(f"e{token}", token, token))
    cache.use(1, 1, 9)
    assert cache.publish(entry("e4", 4, 4, size=15)) == ["e2", "e3"]
    assert cache.index.statistics(0).evictions == 2


def test_session_entries_are_evicted_last() -> None:
    cache = Harness(max_bytes=30)
    cache.publish(entry("a", 1, session="s"))
    cache.publish(entry("b", 2))
    cache.publish(entry("c", 3))
    assert cache.publish(entry("d", 4)) == ["b"]
    assert cache.publish(entry("e", 5, size=20)) == ["c", "d"]
    assert cache.publish(entry("f", 6, size=30)) == ["e", "a"]


def test_only_the_latest_entry_of_a_session_is_preferred() -> None:
    cache = Harness(max_bytes=30)
    cache.publish(entry("a", 1, session="s"))
    cache.publish(entry("b", 2))
    cache.publish(entry("c", 3, session="s"))
    assert cache.publish(entry("d", 4)) == ["a"]


def test_pinned_entries_are_never_evicted() -> None:
    cache = Harness(max_bytes=30)
    cache.publish(entry("a", 1, 1))
    cache.publish(entry("b", 2, 2))
    cache.lookup(1, 1, 3)
    cache.use(2, 2, 3)
    assert cache.publish(entry("c", 3, size=20)) == ["b"]
    cache.unpin("a")
    assert cache.publish(entry("d", 4)) == ["a"]


def test_an_entry_without_room_beside_the_pinned_is_refused_and_evicts_nothing() -> None:
    cache = Harness(max_bytes=30)
    cache.publish(entry("a", 1, 1))
    cache.publish(entry("b", 2, 2))
    cache.lookup(1, 1, 3)
    assert cache.publish(entry("c", 3, size=21)) == ["c"]
    assert cache.publish(entry("d", 3, size=31)) == ["d"]
    assert cache.lookup(2, 2, 3) == ("b", 2)


def test_a_budget_of_zero_switches_the_cache_off() -> None:
    cache = Harness(max_bytes=0)
    assert cache.publish(entry("a", 1, 2, size=0)) == ["a"]
    assert cache.lookup(1, 2, 3) == (None, 0)


def test_of_several_covering_entries_the_most_recent_counts_as_used() -> None:
    cache = Harness(max_bytes=30)
    for number, tokens in enumerate(((1, 2), (1, 3), (9,))):
        cache.publish(entry(f"e{number}", *tokens))
    cache.use(1, 2, 5)
    assert cache.publish(entry("short", 1)) == ["short"]
    assert cache.publish(entry("big", 8, size=20)) == ["e1", "e2"]


def test_what_is_evicted_for_another_scheduler_is_told_at_the_next_publish() -> None:
    cache = Harness(max_bytes=20)
    cache.publish(entry("a", 1), scheduler=ONE)
    assert cache.publish(entry("b", 1, size=20), scheduler=TWO, namespace="other") == []
    assert cache.lookup(1, 2) == (None, 0)
    assert cache.publish(entry("c", 2), scheduler=ONE) == ["a"]


def test_a_dropped_entry_that_is_published_again_stays_dropped() -> None:
    cache = Harness(max_bytes=20)
    cache.publish(entry("a", 1), scheduler=ONE)
    cache.publish(entry("b", 1, size=20), scheduler=TWO, namespace="other")
    assert cache.publish(entry("a", 1), scheduler=ONE) == ["a"]
    assert cache.lookup(1, 2) == (None, 0)


def test_reconciling_applies_the_budget_oldest_first() -> None:
    cache = Harness(max_bytes=20)
    assert cache.reconcile(entry("a", 1), entry("b", 2), entry("c", 3)) == ["a"]
    assert cache.reconcile(entry("b", 2), entry("c", 2, 3)) == ["b"]


def test_a_sweep_names_what_nobody_has_used_for_long() -> None:
    cache = Harness()
    cache.publish(entry("old", 1, 2))
    cache.publish(entry("pinned", 3, 4))
    cache.lookup(3, 4, 5)
    cache.clock.advance(IDLE_S / 2)
    cache.publish(entry("young", 5, 6))
    assert cache.sweep() == ([], [])
    cache.clock.advance(IDLE_S / 2)
    assert cache.sweep() == ([], ["old"])
    assert cache.sweep(scheduler=TWO) == ([], [])
    cache.use(1, 2, 3)
    assert cache.sweep() == ([], [])


def test_pressure_costs_the_least_recently_used_of_the_one_who_feels_it() -> None:
    cache = Harness()
    cache.publish(entry("elsewhere", 1, 2), scheduler=TWO, namespace="other model")
    cache.publish(entry("session", 1, 2, session="s"))
    cache.publish(entry("a", 3, 4))
    cache.publish(entry("b", 5, 6))
    cache.lookup(5, 6, 7)
    assert cache.sweep(pressure=11) == (["a", "session"], [])
    assert cache.sweep(pressure=10**9) == ([], []), "what is pinned stays"
    assert cache.index.statistics(0).reclaimed == 20
