"""What a session changes about finding entries and keeping them."""

from __future__ import annotations

import pytest

from tests.actors.prompt_cache.harness import Harness, entry


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


def test_a_session_follows_its_entry_into_the_one_that_covers_it() -> None:
    cache = Harness(max_bytes=20)
    cache.publish(entry("a", 1, session="s"))
    assert cache.publish(entry("longer", 1, 2)) == ["a"]
    cache.publish(entry("b", 2))
    assert cache.publish(entry("c", 3)) == ["b"]


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
