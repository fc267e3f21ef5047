"""What the index knows of a scheduler, of its successor, and when it forgets."""

from __future__ import annotations

from actors.ids import EntryId, Incarnation
from actors.prompt_cache.messages import Discard
from tests.actors.prompt_cache.harness import ONE, TWO, Harness, entry


def test_reconciling_replaces_what_was_known_of_a_scheduler() -> None:
    cache = Harness()
    cache.publish(entry("a", 1, 1))
    cache.publish(entry("b", 2, 2))
    assert cache.reconcile(entry("b", 2, 2), entry("c", 3, 3)) == []
    assert cache.lookup(1, 1, 1) == (None, 0)
    assert cache.lookup(2, 2, 2) == ("b", 2)
    assert cache.lookup(3, 3, 3) == ("c", 2)


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
