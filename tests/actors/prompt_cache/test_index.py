"""What is stored, what is found, and what is pinned."""

from __future__ import annotations

from array import array

import pytest

from actors.ids import EntryId, RequestId
from actors.prompt_cache.index import PIN_LEASE_S
from actors.prompt_cache.messages import Entry, Lookup
from tests.actors.prompt_cache.harness import MODEL, ONE, TWO, Harness, entry


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


def test_short_prefixes_are_neither_stored_nor_found() -> None:
    cache = Harness(min_tokens=3)
    assert cache.publish(entry("a", 1, 2)) == ["a"]
    assert cache.publish(entry("b", 1, 2, 3, 4)) == []
    assert cache.lookup(1, 2, 9, 9) == (None, 0)
    assert cache.lookup(1, 2, 3, 9) == ("b", 3)


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
