"""Where the state of a prompt is worth keeping, for models whose caches cannot be cut at any token. Pure.

State space layers and sliding windows know only where they are. To begin from the middle of an earlier prompt, its
state has to have been kept there. A kept state costs memory, and stopping there costs a pass of its own, so both are
done only where later prompts are likely to part ways.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

APART = 16
"""Tokens between two boundaries at least: computing fewer anew costs less than keeping a state."""

WHOLE = 64
"""Prompts with so many tokens to compute, or fewer, are computed without a stop, in one pass with others like them."""

MOST = 8
"""Boundaries of one stored prefix."""


def stops(start: int, end: int, wanted: Sequence[int], branch: int, every: int) -> list[int]:
    """Lengths at which the computation of a prompt should stop for a moment, ascending.

    Args:
        start: tokens that are computed already.
        end: tokens that will be computed; the end itself is kept anyway.
        wanted: where the conversation's template says that later prompts will still agree.
        branch: where the prompt parts from others that are known, so that a third one is likely to part there too.
        every: distance of boundaries that are kept for want of better knowledge; 0 for none.
    """
    if end - start <= WHOLE:
        return []
    chosen: set[int] = {length for length in wanted if start < length < end}
    regular = range((start // every + 1) * every, end, every) if every else ()
    for length in chain([branch], regular):
        near = any(abs(length - other) < APART for other in (start, end, *chosen))
        if start < length < end and not near:
            chosen.add(length)
    return sorted(chosen)


def thin(lengths: Sequence[int], end: int, origin: int) -> tuple[int, ...]:
    """At most `MOST` of the ascending boundaries of a prefix of `end` tokens.

    The first one stays, which conversations with the same system prompt share, and the last two, where the question
    and the prompt end. So does `origin`, where the row began: with it the prefix replaces the one it began from. The
    others grow sparser towards the beginning: what lies far back is missed less often, and a gap there is small
    beside what would have to be computed anyway.
    """
    kept = list(lengths)
    while len(kept) > MOST:
        cost = {at: _gap(kept, at, end) for at in range(1, len(kept) - 2) if kept[at] != origin}
        del kept[min(cost, key=lambda at: cost[at])]
    return tuple(kept)


def _gap(kept: Sequence[int], at: int, end: int) -> float:
    """How large the gap without a boundary would be, as part of what lies behind it."""
    before, after = kept[at - 1], kept[at + 1]
    return (after - before) / (end - before)
