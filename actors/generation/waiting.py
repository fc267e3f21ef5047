"""The line of rows that wait for a seat, and the count of seats taken. Pure."""

from __future__ import annotations

import time
from collections import deque

from actors.generation.row import Row
from actors.ids import IngressId, RequestId


class WaitingLine:
    """First come, first served. Event loop only.

    Args:
        seats: rows that may be with the engine: those that decode and a few that are ready to follow.
        places: rows that may wait beyond that.
    """

    def __init__(self, seats: int, places: int) -> None:
        self.seats = seats
        self.places = places
        self._line: deque[Row] = deque()
        self._live: dict[RequestId, Row] = {}
        self._seated: set[RequestId] = set()

    @property
    def full(self) -> bool:
        return len(self._live) >= self.seats + self.places

    @property
    def live(self) -> int:
        """Rows that wait or run."""
        return len(self._live)

    @property
    def seated(self) -> int:
        """Rows with the engine."""
        return len(self._seated)

    @property
    def waiting(self) -> int:
        return len(self._line)

    def oldest_wait_s(self) -> float:
        return time.monotonic() - self._line[0].accepted_at if self._line else 0.0

    def __contains__(self, request_id: RequestId) -> bool:
        return request_id in self._live

    def join(self, row: Row) -> None:
        self._live[row.request.request_id] = row
        self._line.append(row)

    def next(self) -> Row | None:
        """The first in line, now seated; None when the line is empty or no seat is free."""
        if not self._line or len(self._seated) >= self.seats:
            return None
        row = self._line.popleft()
        self._seated.add(row.request.request_id)
        return row

    def leave(self, request_id: RequestId) -> Row | None:
        """A row that has ended, or gives up. None when it is not known."""
        self._seated.discard(request_id)
        row = self._live.pop(request_id, None)
        if row is not None and row in self._line:
            self._line.remove(row)
        return row

    def cancel(self, request_id: RequestId) -> bool:
        """Mark a row cancelled. A row that still waits leaves at once; a seated one leaves when the engine says so.

        Returns:
            Whether the engine has to be woken.
        """
        row = self._live.get(request_id)
        if row is None:
            return False
        row.cancelled = True
        if request_id in self._seated:
            return True
        self.leave(request_id)
        return False

    def of(self, ingress: IngressId) -> list[RequestId]:
        """Rows of one ingress replica."""
        return [request_id for request_id, row in self._live.items() if row.request.ingress == ingress]
