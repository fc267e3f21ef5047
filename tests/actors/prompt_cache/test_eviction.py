from __future__ import annotations

from dataclasses import dataclass

import pytest

from actors.prompt_cache import eviction


@dataclass(eq=False)
class Held:
    length: int = 10
    size: int = 10
    trimmable: bool = True
    boundaries: tuple[int, ...] = ()
    pinned: bool = False
    referenced: bool = False


def evict(residents: list[Held], excess: int) -> list[int]:
    chosen = eviction.victims(residents, excess, lambda resident: resident.referenced)
    return [residents.index(victim) for victim in chosen]


def test_the_least_recently_used_goes_first() -> None:
    assert evict([Held(), Held(), Held()], 11) == [0, 1]


def test_nothing_goes_without_an_excess() -> None:
    assert evict([Held(), Held()], 0) == []


def test_entries_of_sessions_go_last_and_pinned_ones_never() -> None:
    residents = [Held(referenced=True), Held(pinned=True), Held(), Held(referenced=True), Held()]
    assert evict(residents, 10) == [2]
    assert evict(residents, 25) == [2, 4, 0]
    assert evict(residents, 1000) == [2, 4, 0, 3]


@pytest.mark.parametrize(
    ("size", "budget", "pinned", "answer"),
    [(10, 10, 0, True), (11, 10, 0, False), (5, 10, 5, True), (6, 10, 5, False), (0, 0, 0, False), (1, 0, 0, False)],
)
def test_an_entry_fits_beside_what_is_pinned(size: int, budget: int, pinned: int, answer: bool) -> None:
    assert eviction.fits(size, budget, pinned) is answer


def test_a_longer_trimmable_entry_makes_the_newcomer_redundant() -> None:
    cover = Held(length=20)
    assert eviction.redundant(Held(), [cover]) is cover
    assert eviction.redundant(Held(trimmable=False), [cover]) is cover


def test_an_unpinned_twin_is_replaced_and_a_pinned_one_stays() -> None:
    unpinned, pinned = Held(), Held(pinned=True)
    assert eviction.redundant(Held(), [unpinned]) is None
    assert eviction.redundant(Held(), [unpinned, pinned]) is pinned


def test_of_two_twins_the_trimmable_one_stays() -> None:
    rigid, pinned_rigid, trimmable = Held(trimmable=False), Held(trimmable=False, pinned=True), Held()
    assert eviction.redundant(Held(), [rigid]) is None
    assert eviction.redundant(Held(), [pinned_rigid]) is None
    assert eviction.redundant(Held(trimmable=False), [trimmable]) is trimmable


def test_an_entry_with_all_the_boundaries_of_the_newcomer_makes_it_redundant() -> None:
    cover = Held(length=20, trimmable=False, boundaries=(4, 10))
    assert eviction.redundant(Held(trimmable=False, boundaries=(4,)), [cover]) is cover
    assert eviction.redundant(Held(trimmable=False, boundaries=(5,)), [cover]) is None
    assert eviction.redundant(Held(), [cover]) is None


def test_of_two_twins_the_one_with_more_boundaries_stays() -> None:
    more, fewer = Held(trimmable=False, boundaries=(4, 6)), Held(trimmable=False, boundaries=(4,))
    assert eviction.redundant(fewer, [more]) is more
    assert eviction.redundant(more, [fewer]) is None


def test_an_entry_supersedes_what_ends_at_its_boundaries_and_can_be_cut_nowhere_else() -> None:
    checkpoint, elsewhere, trimmable = Held(4, trimmable=False), Held(5, trimmable=False), Held(6)
    newcomer = Held(trimmable=False, boundaries=(4, 6))
    assert eviction.superseded(newcomer, [trimmable, elsewhere, checkpoint]) == [checkpoint]


def test_a_trimmable_entry_supersedes_all_it_covers_another_one_only_its_twin() -> None:
    twin, ancestor, checkpoint = Held(), Held(length=4), Held(length=5, trimmable=False)
    prefixes = [twin, checkpoint, ancestor]
    assert eviction.superseded(Held(), prefixes) == prefixes
    assert eviction.superseded(Held(trimmable=False), prefixes) == [twin]
