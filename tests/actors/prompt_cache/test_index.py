from __future__ import annotations

from array import array

import pytest

from actors.clock import FakeClock
from actors.ids import EntryId, Incarnation, RequestId
from actors.prompt_cache.index import PIN_LEASE_S, PrefixIndex
from actors.prompt_cache.messages import Discard, Entry, Lookup, Publish, Reconcile, Sweep, Unpin

MODEL = "model"
IDLE_S = 300.0
ONE, TWO = Incarnation("one"), Incarnation("two")


def entry(
    name: str,
    *tokens: int,
    size: int = 10,
    trimmable: bool = True,
    session: str | None = None,
    boundaries: tuple[int, ...] = (),
    partition: str = "",
) -> Entry:
    return Entry(EntryId(name), array("I", tokens).tobytes(), size, trimmable, session, boundaries, partition)


class Harness:
    """An index, short to speak to, checked after every message."""

    def __init__(self, max_bytes: int = 100, min_tokens: int = 1) -> None:
        self.clock = FakeClock()
        self.index = PrefixIndex(max_bytes, min_tokens, self.clock, IDLE_S)

    def publish(self, stored: Entry, scheduler: Incarnation = ONE, namespace: str = MODEL) -> list[str]:
        return self.checked(self.index.publish(Publish(namespace, scheduler, stored)))

    def reconcile(self, *entries: Entry, scheduler: Incarnation = ONE, namespace: str = MODEL) -> list[str]:
        return self.checked(self.index.reconcile(Reconcile(namespace, scheduler, entries)))

    def lookup(
        self,
        *tokens: int,
        request: str = "r",
        scheduler: Incarnation = ONE,
        namespace: str = MODEL,
        session: str | None = None,
        partition: str = "",
    ) -> tuple[str | None, int]:
        message = Lookup(RequestId(request), namespace, scheduler, array("I", tokens).tobytes(), session, partition)
        answer = self.index.lookup(message)
        self.checked(())
        return answer

    def unpin(self, name: str, request: str = "r") -> None:
        self.index.unpin(Unpin(RequestId(request), EntryId(name)))
        self.checked(())

    def use(self, *tokens: int, session: str | None = None) -> None:
        """Look up and unpin at once."""
        name, _ = self.lookup(*tokens, session=session)
        assert name is not None
        self.unpin(name)

    def sweep(self, pressure: int = 0, scheduler: Incarnation = ONE) -> tuple[list[str], list[str]]:
        drop, idle = self.index.sweep(Sweep(scheduler, pressure))
        return self.checked(drop), list(idle)

    def counts(self) -> tuple[int, int, int]:
        now = self.index.statistics(0)
        return now.session_hits, now.session_misses, now.prefix_scans

    def checked(self, drop: tuple[EntryId, ...]) -> list[str]:
        assert self.index.check() == []
        return list(drop)

    @property
    def size(self) -> int:
        return self.index.statistics(0).size


def test_what_was_published_is_found_at_its_usable_length() -> None:
    cache = Harness()
    assert cache.publish(entry("a", 1, 2, 3)) == []
    assert cache.lookup(1, 2, 3, 4) == ("a", 3)
    assert cache.lookup(1, 2, 3) == ("a", 2)
    assert cache.lookup(1, 2, 9, 9) == ("a", 2)
    assert cache.lookup(7, 7) == (None, 0)


def test_prefixes_cross_neither_namespaces_nor_schedulers() -> None:
    cache = Harness()
    cache.publish(entry("a", 1, 2, 3))
    assert cache.lookup(1, 2, 3, 4, namespace="other") == (None, 0)
    assert cache.lookup(1, 2, 3, 4, scheduler=TWO) == (None, 0)


def test_a_duplicate_replaces_the_older_entry() -> None:
    cache = Harness()
    cache.publish(entry("a", 1, 2, 3))
    assert cache.publish(entry("b", 1, 2, 3)) == ["a"]
    assert cache.lookup(1, 2, 3, 4) == ("b", 3)
    assert cache.size == 10


def test_a_duplicate_of_a_pinned_entry_is_dropped() -> None:
    cache = Harness()
    cache.publish(entry("a", 1, 2, 3))
    cache.lookup(1, 2, 3, 4)
    assert cache.publish(entry("b", 1, 2, 3)) == ["b"]


def test_publishing_again_changes_nothing_but_recency() -> None:
    cache = Harness(max_bytes=20)
    cache.publish(entry("a", 1))
    cache.publish(entry("b", 2))
    assert cache.publish(entry("a", 1)) == []
    assert cache.publish(entry("c", 3)) == ["b"]


def test_a_longer_trimmable_entry_replaces_what_it_covers() -> None:
    cache = Harness()
    cache.publish(entry("a", 1, 2, trimmable=False))
    cache.publish(entry("b", 1, 2, 3))
    cache.publish(entry("side", 1, 5))
    assert cache.publish(entry("c", 1, 2, 3, 4)) == ["b"]
    assert cache.lookup(1, 2, 9) == ("c", 2)


def test_an_untrimmable_entry_leaves_its_ancestors() -> None:
    cache = Harness()
    cache.publish(entry("a", 1, 2, trimmable=False))
    assert cache.publish(entry("b", 1, 2, 3, 4, trimmable=False)) == []
    assert cache.lookup(1, 2, 3, 9) == ("a", 2)


def test_an_entry_that_a_longer_one_covers_is_dropped_at_once() -> None:
    cache = Harness(max_bytes=30)
    cache.publish(entry("long", 1, 2, 3))
    cache.publish(entry("other", 5))
    assert cache.publish(entry("short", 1, 2)) == ["short"]
    # The covering entry counts as used.
    assert cache.publish(entry("big", 6, size=20)) == ["other"]


def test_a_pinned_ancestor_goes_with_its_last_pin() -> None:
    cache = Harness()
    cache.publish(entry("a", 1, 2))
    cache.lookup(1, 2, 3, request="r")
    cache.lookup(1, 2, 3, request="s")
    assert cache.publish(entry("b", 1, 2, 3)) == []
    assert cache.lookup(1, 2, 9, request="t") == ("b", 2)
    assert cache.size == 20
    cache.unpin("a", "r")
    assert cache.size == 20
    cache.unpin("a", "s")
    assert cache.size == 10
    assert cache.publish(entry("c", 9)) == ["a"]


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


def test_a_session_that_starts_from_an_entry_protects_it() -> None:
    cache = Harness(max_bytes=20)
    cache.publish(entry("a", 1, 1))
    cache.publish(entry("b", 2, 2))
    cache.use(1, 1, 3, session="s")
    cache.use(2, 2, 3)
    assert cache.publish(entry("c", 3)) == ["b"]


def test_a_session_keeps_its_own_entry_when_it_starts_from_another() -> None:
    cache = Harness(max_bytes=20)
    cache.publish(entry("own", 1, 1, session="s"))
    cache.publish(entry("other", 2, 2))
    cache.use(2, 2, 3, session="s")
    assert cache.publish(entry("new", 3)) == ["other"]


def test_of_several_covering_entries_the_most_recent_counts_as_used() -> None:
    cache = Harness(max_bytes=30)
    for number, tokens in enumerate(((1, 2), (1, 3), (9,))):
        cache.publish(entry(f"e{number}", *tokens))
    cache.use(1, 2, 5)
    assert cache.publish(entry("short", 1)) == ["short"]
    assert cache.publish(entry("big", 8, size=20)) == ["e1", "e2"]


def test_a_session_follows_its_entry_into_the_one_that_covers_it() -> None:
    cache = Harness(max_bytes=20)
    cache.publish(entry("a", 1, session="s"))
    assert cache.publish(entry("longer", 1, 2)) == ["a"]
    cache.publish(entry("b", 2))
    assert cache.publish(entry("c", 3)) == ["b"]


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


def test_short_prefixes_are_neither_stored_nor_found() -> None:
    cache = Harness(min_tokens=3)
    assert cache.publish(entry("a", 1, 2)) == ["a"]
    assert cache.publish(entry("b", 1, 2, 3, 4)) == []
    assert cache.lookup(1, 2, 9, 9) == (None, 0)
    assert cache.lookup(1, 2, 3, 9) == ("b", 3)


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


def test_reconciling_replaces_what_was_known_of_a_scheduler() -> None:
    cache = Harness()
    cache.publish(entry("a", 1, 1))
    cache.publish(entry("b", 2, 2))
    assert cache.reconcile(entry("b", 2, 2), entry("c", 3, 3)) == []
    assert cache.lookup(1, 1, 1) == (None, 0)
    assert cache.lookup(2, 2, 2) == ("b", 2)
    assert cache.lookup(3, 3, 3) == ("c", 2)


def test_reconciling_applies_the_budget_oldest_first() -> None:
    cache = Harness(max_bytes=20)
    assert cache.reconcile(entry("a", 1), entry("b", 2), entry("c", 3)) == ["a"]
    assert cache.reconcile(entry("b", 2), entry("c", 2, 3)) == ["b"]


def test_reconciling_ends_the_pins_of_the_scheduler() -> None:
    cache = Harness()
    cache.publish(entry("a", 1, 2))
    cache.lookup(1, 2, 3)
    cache.reconcile(entry("a", 1, 2))
    assert cache.index.statistics(0).pinned == 0


def test_a_successor_ends_its_predecessor() -> None:
    cache = Harness()
    cache.publish(entry("a", 1, 2), scheduler=ONE)
    cache.publish(entry("adapted", 1, 2), scheduler=ONE, namespace="model+adapter")
    cache.publish(entry("foreign", 1, 2), scheduler=Incarnation("three"), namespace="other")
    assert cache.reconcile(scheduler=TWO) == []
    assert cache.index.statistics(0).entries == 1
    assert cache.publish(entry("late", 1, 2), scheduler=ONE) == ["late"]
    assert cache.reconcile(entry("late", 1, 2), scheduler=ONE) == ["late"]
    assert cache.lookup(1, 2, 3, scheduler=ONE) == (None, 0)
    assert cache.publish(entry("b", 1, 2), scheduler=TWO) == []


def test_a_predecessor_that_only_looked_up_is_ended_too() -> None:
    cache = Harness()
    cache.lookup(1, 2, 3, scheduler=ONE)
    cache.reconcile(scheduler=TWO)
    assert cache.publish(entry("late", 1, 2), scheduler=ONE) == ["late"]


def test_forgotten_pins_end_after_their_lease() -> None:
    cache = Harness()
    cache.publish(entry("a", 1, 2))
    cache.lookup(1, 2, 3, request="r")
    cache.clock.advance(1.0)
    cache.lookup(1, 2, 3, request="s")
    cache.publish(entry("b", 1, 2, 3))
    cache.clock.advance(PIN_LEASE_S - 1.5)
    assert cache.index.expire_pins() == 0
    cache.clock.advance(0.5)
    assert cache.index.expire_pins() == 1
    assert cache.size == 20
    cache.clock.advance(1.0)
    assert cache.index.expire_pins() == 1
    assert cache.size == 10
    assert cache.publish(entry("c", 5)) == ["a"]


def test_unknown_pins_are_ignored() -> None:
    cache = Harness()
    cache.publish(entry("a", 1, 2))
    cache.lookup(1, 2, 3)
    cache.unpin("a", "stranger")
    cache.unpin("nothing")
    assert cache.index.statistics(0).pinned == 1
    cache.unpin("a")
    cache.unpin("a")
    assert cache.index.statistics(0).pinned == 0


def test_malformed_messages_are_refused_and_change_nothing() -> None:
    cache = Harness()
    cache.publish(entry("a", 1, 2))
    for broken in (
        Entry(EntryId("x"), b"123", 1, True),
        entry("x", 1, size=-1),
        entry("a", 1, 2, 3),
        entry("a", 1, 2, size=11),
        entry("a", 1, 2, trimmable=False),
    ):
        with pytest.raises(ValueError, match=r"whole number|negative|already names"):
            cache.publish(broken)
    with pytest.raises(ValueError, match="already names"):
        cache.publish(entry("a", 1, 2), namespace="other")
    with pytest.raises(ValueError, match="whole number"):
        cache.reconcile(entry("b", 1), Entry(EntryId("x"), b"123", 1, True))
    with pytest.raises(ValueError, match="whole number"):
        cache.index.lookup(Lookup(RequestId("r"), MODEL, ONE, b"12345"))
    assert cache.lookup(1, 2, 3) == ("a", 2)
    assert cache.index.statistics(0).entries == 1


def test_an_entry_is_used_at_its_boundaries_and_supersedes_what_ends_there() -> None:
    cache = Harness()
    assert cache.publish(entry("turn1", 1, 2, 3, trimmable=False, boundaries=(2,))) == []
    assert cache.publish(entry("turn2", 1, 2, 3, 4, 5, trimmable=False, boundaries=(2, 3))) == ["turn1"]
    assert cache.lookup(1, 2, 3, 4, 5, 6) == ("turn2", 5)
    assert cache.lookup(1, 2, 3, 9) == ("turn2", 3)
    assert cache.lookup(1, 2, 9) == ("turn2", 2)
    assert cache.publish(entry("again", 1, 2, 3, trimmable=False, boundaries=(2,))) == ["again"]


def test_partitions_see_nothing_of_each_other() -> None:
    cache = Harness()
    cache.publish(entry("a", 1, 2, 3, session="s", partition="one"))
    assert cache.lookup(1, 2, 3, 4, partition="two", session="s") == (None, 0)
    assert cache.lookup(1, 2, 3, 4, session="s") == (None, 0)
    assert cache.index.shared(Lookup(RequestId("r"), MODEL, ONE, array("I", [1, 2]).tobytes())) == 0
    assert cache.lookup(1, 2, 3, 4, partition="one") == ("a", 3)
    assert cache.reconcile(entry("a", 1, 2, 3, partition="one"), entry("b", 1, 2, 3, partition="two")) == []
    assert cache.lookup(1, 2, 3, 4, partition="two") == ("b", 3)


def test_a_session_starts_from_its_latest_entry_without_a_search() -> None:
    cache = Harness()
    cache.publish(entry("a", 1, 2, session="s"))
    assert cache.lookup(1, 2, 3, session="s") == ("a", 2)
    assert cache.counts() == (1, 0, 0)
    assert cache.lookup(1, 2, 3) == ("a", 2)
    assert cache.counts() == (1, 0, 1)


@pytest.mark.parametrize("prompt", [(1, 2), (1, 9, 3), (9,)], ids=["not longer", "edited", "another"])
def test_a_session_whose_history_changed_is_searched_for_like_any_other(prompt: tuple[int, ...]) -> None:
    cache, plain = Harness(), Harness()
    for harness in (cache, plain):
        harness.publish(entry("other", 1, 9))
        harness.publish(entry("a", 1, 2, session="s"))
    assert cache.lookup(*prompt, session="s") == plain.lookup(*prompt)
    assert cache.counts() == (0, 1, 1)


def test_a_session_does_not_hide_what_goes_further() -> None:
    cache = Harness()
    cache.publish(entry("a", 1, 2, trimmable=False, session="s"))
    cache.publish(entry("b", 1, 2, 3, 4, trimmable=False))
    assert cache.lookup(1, 2, 3, 4, 5, session="s") == ("b", 4)
    assert cache.lookup(1, 2, 3, 9, session="s") == ("a", 2)
    assert cache.counts() == (1, 1, 1)


def test_a_closed_session_has_no_claim_any_more() -> None:
    cache = Harness(max_bytes=20)
    cache.publish(entry("a", 1, 2, session="s"))
    cache.index.close_session("s")
    assert cache.lookup(1, 2, 3) == ("a", 2)
    cache.unpin("a")
    cache.publish(entry("b", 3, 4))
    assert cache.publish(entry("c", 5, 6)) == ["a"]
    assert cache.counts() == (0, 0, 1)
    assert cache.lookup(3, 4, 5, session="s") == ("b", 2)
    assert cache.counts() == (0, 1, 2)


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


def test_what_a_scheduler_discards_is_known_no_more() -> None:
    cache = Harness()
    cache.publish(entry("a", 1, 2))
    cache.index.discard(Discard(TWO, (EntryId("a"),)))
    assert cache.size == 10
    cache.index.discard(Discard(ONE, (EntryId("a"), EntryId("unknown"))))
    assert cache.checked(()) == []
    assert cache.lookup(1, 2, 3) == (None, 0)
    assert cache.index.statistics(0).demotions == 1
    assert cache.sweep() == ([], []), "it is owed to nobody"


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


def test_statistics_count_what_happened() -> None:
    cache = Harness(max_bytes=20)
    cache.publish(entry("a", 1, 2, 3))
    cache.publish(entry("b", 5, 6))
    cache.lookup(1, 2, 3, 4)
    cache.lookup(1, 2, 9)
    cache.lookup(8, 8)
    cache.publish(entry("c", 7))
    now = cache.index.statistics(3)
    assert (now.entries, now.size, now.max_size, now.pinned, now.mailbox_depth) == (2, 20, 20, 1, 3)
    assert (now.hits, now.misses, now.hit_tokens, now.evictions) == (2, 1, 5, 1)


def test_check_sees_lost_bytes_and_lost_entries() -> None:
    cache = Harness()
    cache.publish(entry("a", 1, 2))
    (record,) = cache.index._residents
    record.size = 7
    assert cache.index.check() == ["10 bytes are counted, 7 are held"]
    record.size, record.length = 10, 5
    assert cache.index.check() == ["model: a is in the tree at a point that is not its own"]
    record.length, record.node = 2, None
    assert len(cache.index.check()) == 3
