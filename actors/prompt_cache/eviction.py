"""Who stays and who goes when a new entry arrives. Pure.

Rules, in the order they apply:

1. An entry that a stored one already covers is redundant: a longer one that can be cut to it, and wherever it can be
   cut itself, gives every prefix it could give.
2. An entry that does not fit beside what is pinned is refused, and nothing is evicted for it. Budget 0 refuses all.
3. A new entry supersedes the older entry with the same tokens, every entry it covers when it is trimmable, and else
   those that cannot be cut anywhere either and end at one of its boundaries.
4. Room is made by evicting the least recently used first, those a session refers to last, pinned ones never.
   The new entry itself is never the victim, even when everything else is referenced.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol, TypeVar


class Resident(Protocol):
    """What the rules look at."""

    @property
    def length(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def trimmable(self) -> bool: ...
    @property
    def boundaries(self) -> Collection[int]: ...
    @property
    def pinned(self) -> bool: ...


R = TypeVar("R", bound=Resident)


def redundant(newcomer: R, covers: Iterable[R]) -> R | None:
    """The first stored entry that makes the newcomer needless, if any.

    Args:
        newcomer: the entry that arrives.
        covers: stored entries that have exactly its tokens or can be cut to them.
    """
    return next((cover for cover in covers if _needless(newcomer, cover)), None)


def superseded(newcomer: R, prefixes: Sequence[R]) -> list[R]:
    """Stored entries that the newcomer makes needless.

    Args:
        newcomer: the entry that arrives.
        prefixes: stored entries that are prefixes of it or equal it.
    """
    return [
        old
        for old in prefixes
        if newcomer.trimmable
        or old.length == newcomer.length
        or (not old.trimmable and old.length in newcomer.boundaries)
    ]


def _needless(newcomer: R, cover: R) -> bool:
    cuts, given = set(newcomer.boundaries), set(cover.boundaries)
    if cover.length > newcomer.length:
        return cover.trimmable or (not newcomer.trimmable and cuts <= given)
    if newcomer.trimmable != cover.trimmable:
        return cover.trimmable
    # Of two equals the new one stays, unless both would be in memory until the pins of the older one go.
    return cover.pinned or (not cover.trimmable and cuts < given)


def fits(size: int, budget: int, pinned: int) -> bool:
    """Whether `size` bytes find room in `budget` when everything but `pinned` bytes may go."""
    return budget > 0 and size <= budget - pinned


def victims(residents: Iterable[R], excess: int, referenced: Callable[[R], bool]) -> list[R]:
    """Entries to evict so that at least `excess` bytes become free, or all that may go when they are fewer.

    Args:
        residents: candidates, least recently used first.
        excess: bytes over the budget.
        referenced: whether a session refers to the entry.
    """
    movable = [resident for resident in residents if not resident.pinned]
    preference = sorted(movable, key=referenced)  # stable: the order of use stays within each half
    chosen: list[R] = []
    for resident in preference:
        if excess <= 0:
            break
        chosen.append(resident)
        excess -= resident.size
    return chosen
