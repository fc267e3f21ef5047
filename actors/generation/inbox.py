"""What the event loop tells the engine thread."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from actors.generation.row import Row
from actors.ids import EntryId


class Inbox:
    """Rows to run, prefixes to free and errands. Any thread may put, the engine takes."""

    def __init__(self) -> None:
        self._rows: deque[Row] = deque()
        self._drops: deque[EntryId] = deque()
        self._errands: deque[Callable[[], None]] = deque()
        self._news = threading.Event()

    def __len__(self) -> int:
        return len(self._rows) + len(self._drops)

    def put_row(self, row: Row) -> None:
        self.put_rows([row])

    def put_rows(self, rows: list[Row]) -> None:
        """Rows to run; those put together are taken together."""
        self._rows.extend(rows)
        self._news.set()

    def put_drop(self, entry: EntryId) -> None:
        self._drops.append(entry)
        self._news.set()

    def put_errand(self, errand: Callable[[], None]) -> None:
        """Something to do in the engine's thread, before rows that are put after it. It must be short."""
        self._errands.append(errand)
        self._news.set()

    def wake(self) -> None:
        """Let a waiting engine look around, for instance at `Row.cancelled`."""
        self._news.set()

    def take(self) -> tuple[list[Row], list[EntryId]]:
        """Everything that has arrived. Does not wait."""
        self._news.clear()
        rows = [self._rows.popleft() for _ in range(len(self._rows))]
        drops = [self._drops.popleft() for _ in range(len(self._drops))]
        return rows, drops

    def errands(self) -> list[Callable[[], None]]:
        """Every errand that has arrived; asked for after `take`, done before what that returned."""
        return [self._errands.popleft() for _ in range(len(self._errands))]

    def wait(self) -> None:
        """Block until something arrives."""
        self._news.wait()
