"""When the parts of a traced request took place. Rows that are not traced carry no list, and cost nothing."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from actors.generation.messages import Mark
from actors.generation.row import Row


def note(row: Row, phase: str, started: float, /, **attributes: int) -> None:
    """Record a phase that ends now.

    Args:
        started: its start on the monotonic clock.
    """
    if row.marks is not None:
        row.marks.append(Mark(phase, started, time.monotonic() - started, attributes))


@contextmanager
def span(rows: Iterable[Row], phase: str, /, **attributes: int) -> Iterator[None]:
    """Record the block as a phase of those rows that are traced."""
    started = time.monotonic()
    yield
    for row in rows:
        note(row, phase, started, **attributes)


def beginning(rows: Iterable[Row]) -> list[Row]:
    """Traced rows whose next token is their first."""
    return [row for row in rows if row.marks is not None and row.draws == 0]
