"""Several answers to one prompt: the first row computes it, the others start from copies of what it computed.

A copy costs nothing until its row appends to it. Rows that come late, because seats were short, find the prompt kept
for them; it is let go when the last one has started, ended or failed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from actors.generation import kv
from actors.generation.row import Row

log = logging.getLogger("troupe.generation")


def park(row: Row) -> bool:
    """A row begins. True when it has to wait for another row to compute the prompt; else it may have been given it."""
    choices = row.choices
    if choices is None:
        return False
    if choices.prompt is not None:
        _give(row)
        return False
    if choices.leader is not None:
        choices.parked.append(row)
        return True
    choices.leader = row
    return False


def prompt_done(row: Row, copy: Callable[[], kv.RowCaches]) -> list[Row]:
    """The row has computed its prompt, all but the last token. Returns the rows that can begin now.

    Args:
        copy: makes exact copies of its caches.
    """
    choices = row.choices
    if choices is None or choices.leader is not row:
        return []
    if row.generated:
        # It was tried alone and is past its prompt; its caches are no good for the others any more.
        return gone(row)
    if choices.unstarted > 1:
        try:
            choices.prompt, choices.length, choices.states = copy(), row.computed, dict(row.states)
        except Exception:
            log.exception("%s cannot share its prompt; the next choice computes it again", row.request.request_id)
            return gone(row)
    choices.leader = None
    choices.unstarted -= 1
    freed, choices.parked = choices.parked, []
    for other in freed:
        _give(other)
    return freed


def gone(row: Row) -> list[Row]:
    """The row has ended before its time. Returns the rows that must begin without it: one of them leads now."""
    choices = row.choices
    if choices is None:
        return []
    if row in choices.parked:
        choices.parked.remove(row)
        choices.unstarted -= 1
    elif choices.leader is row:
        choices.leader = None
        choices.unstarted -= 1
        if choices.parked:
            heir = choices.parked.pop(0)
            choices.leader = heir
            return [heir]
    return []


def parked(rows: Iterable[Row]) -> list[Row]:
    """Rows that wait for one of `rows`."""
    return [
        other for row in rows if row.choices is not None and row.choices.leader is row for other in row.choices.parked
    ]


def _give(row: Row) -> None:
    choices = row.choices
    assert choices is not None and choices.prompt is not None
    row.caches = kv.prefix(choices.prompt, choices.length, choices.length)
    row.computed = row.cached = choices.length
    row.states = dict(choices.states)
    choices.unstarted -= 1
    if choices.unstarted <= 0:
        choices.prompt, choices.states = None, {}
